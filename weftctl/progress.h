/* progress.h: how far something is: one line that changes on a terminal, and
 * in a pipe a line now and then, and whenever something else is done.
 */

#ifndef WEFT_PROGRESS_H
#define WEFT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
  bool quiet; /* show nothing */
  bool terminal, shown;
  uint64_t next_line_ms;
  char about[300];
};

void progress_begin (struct progress *p, bool quiet);

/* `permille` is how much is done; -1: nobody knows.  `text` says it in words;
 * `about` is what of it is worth a line in a pipe when it changes.
 */
void progress_show (struct progress *p, const char *subject, int permille,
                    const char *about, const char *text);

/* Before anything else is printed. */
void progress_end (struct progress *p);

#endif /* WEFT_PROGRESS_H */
