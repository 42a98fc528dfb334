/* cluster-verdict-text.c: the text that a verdict is collected in. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "cluster-verdict.h"

void
verdict_text_say (struct verdict *v, enum cluster_severity severity,
                  const char *fmt, ...)
{
  va_list ap;
  int n;

  if (severity != v->wanted)
    return;
  if (severity > v->worst)
    v->worst = severity;
  if (v->used + 2 >= v->size)
    return;
  if (v->used)
    v->text[v->used++] = ' ';
  va_start (ap, fmt);
  n = vsnprintf (v->text + v->used, v->size - v->used, fmt, ap);
  va_end (ap);
  v->used += n < 0 ? 0 : (size_t) n;
  if (v->used >= v->size)
    v->used = v->size - 1;
}
