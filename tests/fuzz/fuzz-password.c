/* fuzz-password.c: weftd's passwords, whose hash is made with less work, as it takes
 * 100 ms on purpose.
 */

#include <config.h>

#include <openssl/evp.h>

#define EVP_PBE_scrypt(text, text_bytes, salt, salt_bytes, n, r, p, max, key,  \
                       key_bytes)                                              \
  EVP_PBE_scrypt (text, text_bytes, salt, salt_bytes, 2, 1, 1, max, key,       \
                  key_bytes)
#include "server/auth-password.c"
