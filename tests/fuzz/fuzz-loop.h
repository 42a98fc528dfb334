/* fuzz-loop.h: weftd's loop on the thread that asks it, in a time of its own. */

#ifndef WEFT_FUZZ_LOOP_H
#define WEFT_FUZZ_LOOP_H

#include "server/loop.h"

/* A loop of this store is the one that requests are answered by, until it ends.  `tick` is
 * called at each tick that goes by, also while a request waits.
 */
struct loop *fuzz_loop_begin (struct store *store, struct hub *hub,
                              struct auth *auth, void (*tick) (void));
void fuzz_loop_end (void);

/* So many ticks go by. */
void fuzz_loop_tick (unsigned ticks);

/* The words that replies have in common are made. */
void fuzz_replies_words (void);

#endif /* WEFT_FUZZ_LOOP_H */
