/* wait.h: ask weftd again and again until something is so. */

#ifndef WEFT_WAIT_H
#define WEFT_WAIT_H

#include <jansson.h>

#include "ctl.h"
#include "progress.h"

struct wait {
  char subject[100]; /* "array data" */
  const char *what;  /* the state to wait for: "in-sync" */
  bool quiet;        /* show no progress */
  /* Look at an answer: EXIT_OK, with *done; or it never will be so, said why.
   * Leaves in `now` what it is instead, and shows the progress.
   */
  int (*look) (struct wait *w, const json_t *reply, bool *done);
  const char *name; /* for `look` */
  unsigned member;
  const json_t *ranges;

  char now[700];
  struct progress progress;
  bool heard;      /* weftd has answered before */
  uint64_t end_ms; /* 0: as long as it takes */
  uint64_t silent_since_ms;
};

/* With limited, --timeout holds; without, only when it is given. */
void wait_init (struct ctl *ctl, struct wait *w, bool limited);

/* GET path until w->look says that it is done.  EXIT_OK with *reply, the last
 * answer, to be decrefed; or a status with the reason said.
 */
int wait_done (struct ctl *ctl, struct wait *w, const char *path,
               json_t **reply);

/* The same, and show the last answer, or say `subject: what`. */
int wait_and_say (struct ctl *ctl, struct wait *w, const char *path);

#endif /* WEFT_WAIT_H */
