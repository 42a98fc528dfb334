/* crypto.c: becomes a libcrypto.so that only brings in the right one: see
 * tls_load_libraries.
 */

#include <openssl/crypto.h>

unsigned long weft_crypto_version (void);

/* A library of which nothing is used would be left out. */
unsigned long
weft_crypto_version (void)
{
  return OpenSSL_version_num ();
}
