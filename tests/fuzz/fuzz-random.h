/* fuzz-random.h: random numbers of OpenSSL that are the same for each input, so that what
 * is made of them (sessions, tokens) is, too.
 */

#ifndef WEFT_FUZZ_RANDOM_H
#define WEFT_FUZZ_RANDOM_H

#include <stdint.h>

/* They start again; another seed gives others. */
void fuzz_random_begin (uint64_t seed);

#endif /* WEFT_FUZZ_RANDOM_H */
