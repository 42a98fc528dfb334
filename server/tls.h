/* tls.h: weftd's own side of TLS: OpenSSL made ready for civetweb, and a
 * certificate of the cluster's CA.
 */

#ifndef WEFT_TLS_H
#define WEFT_TLS_H

#include <stddef.h>

#include <openssl/ssl.h>

#include "pki/ca.h"
#include "http.h"
#include "pki/trust.h"

struct tls;

/* The names and addresses under which weftd is served. */
void tls_names (const struct http_options *o, struct ca_names *names);
/* Does the CA sign the addresses on which weftd listens?  If not: -1, a
 * sentence in why.
 */
int tls_check (const struct ca *ca, const struct ca_networks *networks,
               const struct http_options *o, char *why, size_t why_size);

/* Before mg_init_library.  Returns 0, or -1 with a sentence in why. */
int tls_load_libraries (char *why, size_t why_size);
/* NULL: a sentence in why. */
struct tls *tls_new (struct trust *trust, const struct http_options *o,
                     char *why, size_t why_size);
/* Call when there is no connection any more. */
void tls_free (struct tls *tls);
/* For civetweb; it stays ours. */
SSL_CTX *tls_context (struct tls *tls);

#endif /* WEFT_TLS_H */
