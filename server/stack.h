/* stack.h: the stacks of the HTTP threads, which are many. */

#ifndef WEFT_STACK_H
#define WEFT_STACK_H

/* Called by a thread when it begins. */
void stack_begin (void);
/* The stack below the caller's frame is unused: give it back.  All threads take
 * turns at the connections, so each would in time keep as much stack as the
 * longest request, or a handshake, needs.  Only for threads that have called
 * stack_begin.
 */
void stack_give_back (void);

#endif /* WEFT_STACK_H */
