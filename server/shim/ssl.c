/* ssl.c: becomes a libssl.so that has the name which civetweb 1.15 looks
 * for: see tls_load_libraries.
 */

#include <openssl/ssl.h>

#undef SSL_get_peer_certificate

X509 *SSL_get_peer_certificate (const SSL *ssl)
  __attribute__ ((visibility ("default")));

X509 *
SSL_get_peer_certificate (const SSL *ssl)
{
  return SSL_get1_peer_certificate (ssl);
}
