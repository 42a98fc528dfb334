/* restore.h: `weftd --restore`: a backup is put in the place of the state. */

#ifndef WEFT_RESTORE_H
#define WEFT_RESTORE_H

#include <stdbool.h>

struct restore {
  const char *state; /* the directory */
  const char *file;  /* of weftctl backup, or a copy of weftd.db */
  const char
    *passphrase_file; /* "-": stdin; NULL: it is asked for on the terminal */
  bool replace;       /* though there is a state, which is kept aside */
};

/* Returns the exit status; results and errors go to stderr. */
int restore_run (const struct restore *r);

#endif /* WEFT_RESTORE_H */
