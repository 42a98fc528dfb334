/* admin.h: the HTTP client that talks to weftd (docs/API). */

#ifndef WEFT_ADMIN_H
#define WEFT_ADMIN_H

#include <jansson.h>

struct admin;

/* Call once per process, before any thread is started (libcurl's own rule). */
void admin_global_init (void);

/* A client for one weftd.  One call at a time; a thread that wants to call at
 * the same time as another makes its own.  NULL: out of memory or bad URL.
 */
struct admin *admin_new (const char *url);
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

/* Make a call that is under way in another thread return at once with -1;
 * calls to come as well.
 */
void admin_cancel (struct admin *c);

#endif /* WEFT_ADMIN_H */
