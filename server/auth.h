/* auth.h: callers, their rights, and the records of both: users, their logins,
 * tokens, the nodes' certificates and the audit trail.
 *
 * Of every secret only a hash is kept.  The loop's thread alone changes the
 * state, and stores each change before it answers; HTTP threads read it, so
 * that the caller is known before the body is read.
 */

#ifndef WEFT_AUTH_H
#define WEFT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct audit_log;
struct auth;
struct trust;
struct ca_names;
struct cluster;
struct loop;
struct refusal;
struct request;
struct route;
struct store_txn;

/* How a caller was recognised. */
enum auth_via {
  VIA_NONE,        /* weftd --no-login: anybody who can reach weftd */
  VIA_LOGIN,       /* a login of the page: its cookie and its origin secret */
  VIA_TOKEN,       /* Authorization: Bearer */
  VIA_CERTIFICATE, /* a node, by its TLS certificate */
};

enum auth_role {
  ROLE_NOBODY, /* not logged in */
  ROLE_NODE,
  ROLE_VIEWER,
  ROLE_ADMIN,
};

/* The callers that may use a route. */
enum auth_who {
  WHO_DEFAULT, /* GET: WHO_VIEWER; else WHO_ADMIN */
  WHO_ANYBODY, /* also callers that are not logged in */
  WHO_VIEWER,  /* every user, token and node */
  WHO_ADMIN,
  WHO_NODE, /* a node about itself, or an admin */
};

#define AUTH_HASH_BYTES 32
#define AUTH_SECRET_BYTES 65 /* 64 hex digits */
#define AUTH_SERIAL_BYTES 48

struct caller {
  enum auth_via via;
  enum auth_role role;
  bool tls;
  char name[64];    /* of the user, the token or the node; "": none */
  char owner[64];   /* the user, or the user who made the token */
  char address[46]; /* where the call came from */
  uint8_t
    hash[AUTH_HASH_BYTES]; /* login: of its cookie; token: of its secret */
  char serial[AUTH_SERIAL_BYTES]; /* certificate */
  /* certificate: the one process that it is for ("disk:UUID", "array:NAME"); "": all of
   * the node's.
   */
  char process[72];
  /* A certificate that is not known, of a node that is: until when it is valid, and by whom
   * it was signed (auth_adopt).  0: it is known.
   */
  uint64_t until;
  char issuer[64];
  bool
    late; /* by a node's certificate that has expired: nobody, who may renew it */
};

/* The credentials of a request; NULL for those that it lacks. */
struct auth_credentials {
  const char *authorization, *cookie, *origin_secret; /* of the headers */
  const char *node, *serial; /* of the client's certificate, ... */
  uint64_t until;      /* ... which is valid until then (ms since 1970), ... */
  const char *issuer;  /* ... was signed by this one, ... */
  const char *process; /* ... and is for that one (ca_process) */
};

#define AUTH_OF_PROCESS                                                        \
  "this certificate is for one process of the node, which may do its own "     \
  "work alone: use the node's certificate"
#define AUTH_REVOKED                                                           \
  "this certificate is of no node of the cluster, or was revoked: enroll the " \
  "node again, with weft-enroll"
#define AUTH_UNCONFIRMED                                                       \
  "weftd's database may be an old one, so it refuses passwords and tokens "    \
  "from before until an administrator runs weftctl revocations confirm; the "  \
  "file setup-url in weftd's state directory has a URL to log in with"
#define AUTH_EXPIRED                                                           \
  "the certificate of this node has expired: weft-renew gets it the next one"

/* `own`: the names under which weftd is served; `seconds`: how long the certificates of
 * nodes last.
 */
struct auth *auth_new (bool no_login, struct trust *trust,
                       const struct ca_names *own, uint64_t seconds);
void auth_free (struct auth *a);

/* ---- From the store, at the start. ---- */

bool auth_is_kind (const char *kind);
int auth_load (struct auth *a, const char *kind, const char *key,
               const char *json, char *why, size_t why_size);

/* ---- From any thread. ---- */

/* Find out who calls; caller->address and ->tls are filled in already.  False:
 * refused.
 */
bool auth_recognise (struct auth *a, const struct auth_credentials *given,
                     uint64_t wall_ms, struct caller *caller,
                     struct refusal *refusal);
/* May the caller call this route? */
bool auth_may (struct auth *a, const struct caller *caller,
               const struct route *route, struct refusal *refusal);
/* Is the caller still good: not logged out, deleted, revoked or expired since? */
bool auth_still (struct auth *a, const struct caller *caller, uint64_t wall_ms);
/* The same of a request that waits for its answer.  A certificate that expires meanwhile
 * was good when the request came.
 */
bool auth_still_answered (struct auth *a, const struct caller *caller,
                          uint64_t wall_ms);
bool auth_setup_required (struct auth *a);
bool auth_login_required (const struct auth *a);
/* When the node's certificate expires; false: it has none. */
bool auth_node_certificate (struct auth *a, const char *node,
                            uint64_t *expires_wall_ms);

/* The addresses that the node's certificates may be for, as a list. */
json_t *auth_node_addresses (struct auth *a, const char *node);
/* ---- Which nodes have learned of the CA, or the two: auth-trust.c. ---- */

/* On the loop's thread: the CAs that each node trusts, and the nodes that a
 * rotation waits for.
 */
json_t *auth_trust_view (struct auth *a, uint64_t wall_ms);
/* On the loop's thread: go on, where nobody is waited for. */
void auth_trust_step (struct auth *a, struct store_txn *t, uint64_t wall_ms);

/* The name of the present list of revocations, "NUMBER-TAG": another list has
 * another name, also after a restart.
 */
#define REVOKED_NAME_BYTES 40
void auth_revoked_name (struct auth *a, char name[REVOKED_NAME_BYTES]);
/* May weftd's database be an old one, so that passwords and tokens are refused? */
bool auth_in_doubt (struct auth *a);

/* ---- On the loop's thread. ---- */

/* Take in a certificate that the node got after the backup was made.  False: it is known. */
bool auth_adopt (struct auth *a, struct store_txn *t,
                 const struct caller *caller);
/* After the records were loaded, with those to store.  restored: weftd was
 * restored from a backup, and nobody has confirmed the revocations yet.
 * file: of store_identity.
 */
void auth_start (struct auth *a, struct store_txn *t, bool restored,
                 const char *file, uint64_t wall_ms);
/* The doubt in words, for an administrator; "": there is none. */
void auth_doubt_words (struct auth *a, char *text, size_t size);
/* Before weftd serves: where the one-time URL is written; `file` stays the caller's. */
void auth_setup_at (struct auth *a, const char *file, const char *url);
/* A caller with this secret may make an administrator.  It is valid until it is
 * used, or weftd ends.
 */
void auth_setup_begin (struct auth *a, char secret[AUTH_SECRET_BYTES]);
/* The same, with the secret in the file.  -1: it is missing, which is logged.
 */
int auth_setup_open (struct auth *a);
/* Revoke the node's certificates, and the tokens by which it could enroll; the records go
 * along with t.
 */
void auth_forget_node (struct auth *a, struct store_txn *t, const char *node);
/* From any thread: r was refused before it was read.  Has it to come to the loop, for a
 * line of its own in the audit trail?  (Else it was counted, or is not for the trail.)
 */
bool auth_audits_refusal (struct request *r, int status, uint64_t wall_ms);
/* Where the audit trail goes besides; it stays ours. */
struct audit_log *auth_audit_log (const struct auth *a);
/* After the records were loaded: send the lines that the audit log lacks. */
void auth_audit_start (struct auth *a, struct store_txn *t);
/* Add to the audit trail that r was answered with this status, if that belongs
 * there.
 */
void auth_audit (struct auth *a, struct store_txn *t, struct request *r,
                 int status, uint64_t wall_ms);
/* Newest first, below the cursor (0: the newest), at most `limit`. */
json_t *auth_audit_view (struct auth *a, uint64_t cursor, unsigned limit);
/* Called now and then: drop what has expired, store when logins were last used. */
void auth_tick (struct auth *a, struct store_txn *t, uint64_t wall_ms);

/* The name of a login's cookie, with and without TLS. */
const char *auth_cookie_name (bool tls);

/* The caller in words: "administrator kim at 192.0.2.7". */
#define AUTH_CALLER_BYTES 160
void auth_caller_words (const struct caller *c, char text[AUTH_CALLER_BYTES]);
const char *auth_via_word (enum auth_via via);
const char *auth_role_word (enum auth_role role); /* NULL: nobody */
int auth_role_parse (const char *word); /* of a user or token; -1: no role */

#endif /* WEFT_AUTH_H */
