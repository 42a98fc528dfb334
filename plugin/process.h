/* process.h: which process is this, and has another one of this host ended?
 *
 * A process is known by a text: when its kernel was started, its namespaces, its
 * number and its time of start.  Only programs on the host where the text was made
 * take it apart.
 */

#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <stdbool.h>

#define PROCESS_TEXT_BYTES 160
#define PROCESS_INSTANCE_BYTES 33

/* Draws 32 hexadecimal digits, by which weftd knows this process from all others.
 * Returns -1 with errno.
 */
int process_draw_instance (char text[PROCESS_INSTANCE_BYTES]);

/* The text of this process.  Call it only when nbdkit has gone into the background,
 * which makes it another process.  "": it can't be found out.
 */
void process_self (char text[PROCESS_TEXT_BYTES]);

/* Has that process ended for certain?  False also where that can't be found out, as
 * for a process on another host, in another container, or of another user.
 */
bool process_has_ended (const char *text);

#endif /* WEFT_PROCESS_H */
