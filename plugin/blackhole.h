/* blackhole.h: TCP connections on which what is sent does not arrive.
 *
 * A line may drop large packets and pass small ones: somewhere on the way the MTU is
 * smaller, and nobody says so.  Then connections are made, signs of life and heartbeats
 * come, and only what carries data is lost.  TCP alone would try for a quarter of an
 * hour.
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
