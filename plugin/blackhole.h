/* blackhole.h: detects TCP connections that lose all large packets.
 *
 * The network may drop large packets and pass small ones: a router on the way
 * has a smaller MTU and does not report it.  Then connections are made, and
 * signs of life and heartbeats arrive, but all packets with data are lost.  TCP
 * alone would retry for a quarter of an hour.
 */

#ifndef WEFT_BLACKHOLE_H
#define WEFT_BLACKHOLE_H

#include <stdbool.h>

/* Has the same been sent again RETRIES times, the last time some 3 s after the first, and
 * nothing of it was acknowledged?  False for what is no TCP socket.
 */
bool blackhole_swallows (int fd);

/* End the connection, and tell the other side, which hears it by a small packet. */
void blackhole_reset (int fd);

#endif /* WEFT_BLACKHOLE_H */
