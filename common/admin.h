/* admin.h: the HTTP client that talks to weftd (docs/API). */

#ifndef WEFT_ADMIN_H
#define WEFT_ADMIN_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct admin;

/* Call once per process, before any thread is started (libcurl's own rule). */
void admin_global_init (void);

/* From now on, when weftd does not answer, look in this file, in the form of
 * weft.conf, for its present address (WEFT_ADMIN): at first it must be this
 * URL. Call before any thread is started.
 */
void admin_follow (const char *conf, const char *url);

/* A client for one weftd.  One call at a time; a thread that wants to call at
 * the same time as another makes its own.
 *
 * tls_dir, used with https:// only, may be NULL: a folder with ca-cert.pem, by
 * which weftd is verified, and where there are any, client-cert.pem and
 * client-key.pem, by which we are.  token may be NULL: an API token, sent with
 * each call; without TLS only to this very host, else the call fails.
 *
 * NULL: out of memory or bad URL.
 */
struct admin *admin_new (const char *url, const char *tls_dir,
                         const char *token);
void admin_free (struct admin *c);

/* Call METHOD path (such as "/api/v1/arrays").  `body` may be NULL; it is not
 * consumed.  Returns the HTTP status, with *reply the decoded JSON (NULL for
 * an empty body; the caller decrefs), or -1 when there was no answer; in that
 * case and for a status of 400 and more admin_error () is a sentence that
 * names the server, the reason, and the way out where weftd sent one.
 * timeout_ms bounds the whole call.
 */
int admin_call (struct admin *c, const char *method, const char *path,
                const json_t *body, json_t **reply, unsigned timeout_ms);
const char *admin_error (const struct admin *c);
/* The "code" of the last answer, when it was a refusal; else "". */
const char *admin_code (const struct admin *c);
/* Did the last call get no answer though weftd was reached?  Then it may have
 * been carried out.
 */
bool admin_interrupted (const struct admin *c);

/* From now on take answers of so many bytes. */
void admin_allow (struct admin *c, size_t bytes);
/* A header for the next call alone: "If-Match", "\"17\"". */
void admin_header (struct admin *c, const char *name, const char *value);
/* A header of the last answer, such as "ETag"; NULL: it had none. */
const char *admin_answered (struct admin *c, const char *name);
/* From now on send back the cookies that weftd sets; these are as secret as a
 * token.
 */
void admin_keep_cookies (struct admin *c);

/* GET a text that is not JSON. Returns as admin_call does; the caller frees
 * *text, which is NULL without a status of 200.
 */
int admin_fetch (struct admin *c, const char *path, char **text,
                 unsigned timeout_ms);

/* GET a stream without an end.  `take` is called with each part as it comes,
 * and ends it by returning false.  Returns the status when it has ended; -1
 * when it broke, or when weftd was silent for silent_s seconds; errors as
 * admin_call's.
 */
int admin_stream (struct admin *c, const char *path,
                  bool (*take) (void *opaque, const char *data, size_t n),
                  void *opaque, unsigned silent_s);

/* Make a call that is under way in another thread return at once with -1;
 * calls to come as well.
 */
void admin_cancel (struct admin *c);

#endif /* WEFT_ADMIN_H */
