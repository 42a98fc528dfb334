/* process.h: which process is this, and has another one of this host ended?
 *
 * A process is known by a text: the start of the kernel under which it runs, its
 * namespaces, number and time of start.  It is read where it was made alone.
 */

#ifndef WEFT_PLUGIN_PROCESS_H
#define WEFT_PLUGIN_PROCESS_H

#include <stdbool.h>

#define PROCESS_TEXT_BYTES 160

/* This one; after nbdkit has gone into the background, or it is another.  "": can't
 * be told.
 */
void process_self (char text[PROCESS_TEXT_BYTES]);

/* Has that process ended for certain?  False also where that can't be told, as of
 * one on another host, in another container, or of another user.
 */
bool process_has_ended (const char *text);

#endif /* WEFT_PLUGIN_PROCESS_H */
