/* cluster-verdict.h: the verdict is made of sentences about problems.  Each
 * function for a subject (say_..., verdict_...) is called once for each
 * severity, the worst first, and says all its sentences each time:
 * verdict_text_say takes those with the wanted severity.  So each sentence must
 * be understood alone.
 */

#ifndef WEFT_CLUSTER_VERDICT_H
#define WEFT_CLUSTER_VERDICT_H

#include "cluster/cluster.h"

struct verdict {
  char *text;
  size_t size, used;
  enum cluster_severity wanted, worst;
};

/* CLUSTER_INFO: something waits or is under way, and needs nobody. */
void verdict_text_say (struct verdict *v, enum cluster_severity severity,
                       const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));

/* cluster-verdict-array.c */
void verdict_array (struct verdict *v, const struct cluster *c,
                    const struct cluster_array *a);

/* cluster-verdict-place.c */
void verdict_place (struct verdict *v, const struct cluster *c,
                    const struct cluster_array *a);

#endif /* WEFT_CLUSTER_VERDICT_H */
