/* auth-internal.h: what the files of auth share.
 *
 * Records, by kind: "user" (key: its name), "login", "token" and "node-token"
 * (key: the hash of the secret, in hex), "certificate" (key: its serial
 * number), "audit" (key: its number), "trust" (key: the node), "ca" (trust.c).
 */

#ifndef WEFT_AUTH_INTERNAL_H
#define WEFT_AUTH_INTERNAL_H

#include <pthread.h>

#include <bsd/sys/queue.h>

#include "addresses.h"
#include "auth.h"
#include "ca.h"
#include "ring.h"
#include "store.h"
#include "trust.h"

#define AUTH_USERS_MAX 100
#define AUTH_TOKENS_MAX 500 /* and as many of nodes */
#define AUTH_LOGINS_OF_USER_MAX 20

#define AUTH_LOGIN_IDLE_MS (UINT64_C (12) * 3600 * 1000)
#define AUTH_LOGIN_MS (UINT64_C (7) * 24 * 3600 * 1000)
#define AUTH_USED_MS (UINT64_C (60) * 1000) /* `used` is stored this often */
/* For so long after its end a node's certificate is good for getting the next one. */
#define AUTH_RETURN_MS (UINT64_C (30) * 24 * 3600 * 1000)
/* A clock is set back by less than this where it was about right. */
#define AUTH_AHEAD_MS (UINT64_C (3600) * 1000)
/* For so long an expired token is known as such. */
#define AUTH_EXPIRED_MS (UINT64_C (24) * 3600 * 1000)

/* scrypt, with 2 ** log_n rounds of r KiB / 8. */
struct auth_password {
  uint8_t salt[16], key[32];
  unsigned log_n, r, p;
};

struct user {
  TAILQ_ENTRY (user) link;
  char name[64];
  enum auth_role role;
  struct auth_password password;
  uint64_t created;
};

enum secret_kind { SECRET_LOGIN, SECRET_TOKEN, SECRET_NODE_TOKEN };

struct secret {
  TAILQ_ENTRY (secret) link;
  enum secret_kind kind;
  uint8_t hash[AUTH_HASH_BYTES];
  char name[64];       /* of the user, the token, or the node ("": any) */
  char by[64];         /* the user who made it; a token goes with its user */
  enum auth_role role; /* of a token */
  uint64_t created, used, expires; /* wall clock, ms; 0: never */
  uint64_t stored_used;
  char
    addresses[ADDRESSES_BYTES]; /* a node token: what it may be certified for */
  bool spent; /* a node token, which is good for one use: it was used */
  bool
    login; /* a token that stands for a login with a password (weftctl login) */
};

struct certificate {
  TAILQ_ENTRY (certificate) link;
  char serial[AUTH_SERIAL_BYTES];
  char node[64];
  uint64_t created, expires;
  uint64_t revoked;  /* since then it is worth nothing; 0: it is good */
  json_t *addresses; /* the node's: a list of text */
  char ca
    [CA_FINGERPRINT_BYTES]; /* by which it is signed; "": the one that was there
                                    before there could be two */
};

/* What a node has said of what it trusts. */
struct truster {
  TAILQ_ENTRY (truster) link;
  char node[64];
  char tag[TRUST_TAG_BYTES];     /* trust_tag */
  char ca[CA_FINGERPRINT_BYTES]; /* of the certificate by which it said so */
};

/* What the audit trail keeps apart, so that nothing of one kind pushes out another. */
enum audit_ring {
  AUDIT_CHANGES, /* what people and scripts did, and what administrators tried */
  AUDIT_WORK,    /* what nodes did */
  AUDIT_REFUSED, /* what others tried */
  AUDIT_RINGS
};

struct auth {
  bool no_login;
  struct trust *trust;
  struct ca_names own;
  uint64_t certificate_seconds;

  pthread_mutex_t lock; /* of the following: the loop's thread writes */
  TAILQ_HEAD (, user) users;
  TAILQ_HEAD (, secret) secrets;
  TAILQ_HEAD (, certificate) certificates; /* revoked ones, too */
  TAILQ_HEAD (, truster) trusters;
  uint64_t revoked_tag;
  uint64_t backup_wall_ms; /* auth_restored */
  bool setup;
  uint8_t setup_hash[AUTH_HASH_BYTES];
  const char *setup_file;

  /* The loop's alone. */
  struct ring audit[AUDIT_RINGS];
  uint64_t audit_last;  /* the number of its last line */
  char *crl;            /* NULL: not made yet; ... */
  uint64_t crl_tag;     /* ... the list that it is of, ... */
  unsigned crl_version; /* ... and trust_version */
};

/* ---- auth.c: with the lock held, or on the loop's thread. ---- */

/* A new secret: the text for its owner, the hash for us. */
void auth_secret_make (char text[AUTH_SECRET_BYTES],
                       uint8_t hash[AUTH_HASH_BYTES]);
void auth_secret_hash (const char *text, uint8_t hash[AUTH_HASH_BYTES]);
/* What the page of a login sends with each change. */
void auth_csrf (const char *secret, char csrf[AUTH_SECRET_BYTES]);

struct user *auth_user (const struct auth *a, const char *name);
struct secret *auth_secret (const struct auth *a, enum secret_kind kind,
                            const uint8_t hash[AUTH_HASH_BYTES]);
struct secret *auth_token (const struct auth *a, const char *name);
/* Is it a token that a script has: not a login, nor the token that stands for one? */
bool auth_is_script (const struct auth *a, const struct caller *caller);
/* Until when a token may be valid that this caller makes or deletes: a script's not
 * for longer than its own.
 */
uint64_t auth_script_end (const struct auth *a, const struct caller *caller);
/* The node's certificate that has this serial number, unless it was revoked. */
struct certificate *auth_certificate (const struct auth *a, const char *node,
                                      const char *serial);
bool auth_is_own_address (const struct auth *a, const char *address);
/* Is it good for getting the next one: not revoked, and not expired for too long? */
bool auth_certificate_returns (const struct certificate *c, uint64_t wall_ms);

/* ---- auth-store.c: the loop's thread; they lock. ---- */

/* Put the object in, or store what has changed of it; takes it over. */
void auth_put_user (struct auth *a, struct store_txn *t, struct user *u);
void auth_put_secret (struct auth *a, struct store_txn *t, struct secret *s);
void auth_put_certificate (struct auth *a, struct store_txn *t,
                           struct certificate *c);
void auth_drop_user (struct auth *a, struct store_txn *t, struct user *u);
void auth_drop_secret (struct auth *a, struct store_txn *t, struct secret *s);
void auth_drop_certificate (struct auth *a, struct store_txn *t,
                            struct certificate *c);
/* These are the node's addresses from now on: its next certificate is for them. */
void auth_set_addresses (struct auth *a, struct store_txn *t, const char *node,
                         json_t *addresses);
/* The CRL; it stays ours. */
const char *auth_crl (struct auth *a);
void auth_setup_end (struct auth *a);
/* Is it known no longer? */
bool auth_secret_is_over (const struct secret *s, uint64_t wall_ms);
/* Is it none that lets its owner in: has it expired?  A login, and a token that enrolls a
 * node, that were made while the clock was ahead would be good for too long.
 */
bool auth_secret_expired (const struct secret *s, uint64_t wall_ms);
/* All logins of a user, but for `but` (NULL: none). */
void auth_drop_logins (struct auth *a, struct store_txn *t, const char *user,
                       const uint8_t *but);
/* All that a user made, for scripts and for nodes. */
void auth_drop_tokens (struct auth *a, struct store_txn *t, const char *user);

/* A certificate of the node that was not revoked; NULL: there is none. */
const struct certificate *auth_node_certified (const struct auth *a,
                                               const char *node);
/* weftd was restored from a backup: was this certificate made after the backup, for a node that has one
 * by the backup?
 */
bool auth_is_later (const struct auth *a, const struct auth_credentials *given);

/* ---- auth-trust.c: the loop's thread. ---- */

bool trust_load_node (struct auth *a, const char *key, json_t *object);
/* It has said so. */
void auth_trust_said (struct auth *a, struct store_txn *t, const char *node,
                      const char *tag, const char *ca);
void auth_trust_forget (struct auth *a, struct store_txn *t, const char *node);
/* Does it trust what is trusted, and nobody else? */
bool auth_trusts (const struct auth *a, const char *node);
/* The CA of the node's next certificate. */
const struct ca *auth_trust_signer (const struct auth *a, const char *node);
/* Is this CA, named by its fingerprint, trusted now? */
bool auth_trust_has (const struct auth *a, const char *ca);
/* Is the node to get another certificate now, in this one's place? */
bool auth_trust_renews (const struct auth *a, const struct certificate *c,
                        uint64_t wall_ms);
/* The nodes that are waited for, with commas; NULL: none.  malloc'ed. */
char *auth_trust_waits (struct auth *a, uint64_t wall_ms);
/* A node that is, or could be back, at an address (into `address`) that this CA can't
 * sign; NULL: none.
 */
const struct certificate *auth_trust_outside (const struct auth *a,
                                              const struct ca *ca,
                                              uint64_t wall_ms,
                                              const char **address);
/* What is signed by another CA than the one is of use no more. */
void auth_trust_drop_old (struct auth *a, struct store_txn *t);

/* ---- auth-audit.c ---- */

int audit_load (struct auth *a, const char *key, const char *json, char *why,
                size_t why_size);
/* Store what was counted since it was called last. */
void audit_tick (struct auth *a, struct store_txn *t);

/* ---- auth-password.c: slow; from HTTP threads. ---- */

#define PASSWORD_BYTES_MIN 12
#define PASSWORD_BYTES_MAX 256

/* Call password_begin before, and password_end after, password_make and
 * password_is.  False: too many wait already.  known: the caller is logged in, or
 * has logged in from this address before.
 */
bool password_begin (bool known);
void password_end (void);

void password_make (const char *text, struct auth_password *p);
/* Is this the password?  p NULL (there is no such user): false, as slowly as if
 * there were one.
 */
bool password_is (const char *text, const struct auth_password *p);

#endif /* WEFT_AUTH_INTERNAL_H */
