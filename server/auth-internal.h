/* auth-internal.h: shared by the files of auth.
 *
 * Records, by kind: "user" (key: its name), "login", "token", "node-token"
 * and "device" (key: the hash of the secret, in hex), "certificate" (key: its serial
 * number), "audit" (key: its number), "trust" (key: the node), "ca" (trust.c), "revoked"
 * (auth-revoked.c).
 */

#ifndef WEFT_AUTH_INTERNAL_H
#define WEFT_AUTH_INTERNAL_H

#include <pthread.h>

#include <bsd/sys/queue.h>

#include "addresses.h"
#include "audit-log.h"
#include "auth.h"
#include "pki/ca.h"
#include "pki/certificates.h"
#include "ring.h"
#include "store/store.h"
#include "totp.h"
#include "pki/trust.h"

#define AUTH_USERS_MAX 100
/* Tokens of one user, and of all users but administrators; and of nodes. */
#define AUTH_TOKENS_OF_USER_MAX 100
#define AUTH_TOKENS_MAX 500
#define AUTH_LOGINS_OF_USER_MAX 20
#define AUTH_DEVICES_OF_USER_MAX 20

#define AUTH_LOGIN_IDLE_MS (UINT64_C (12) * 3600 * 1000)
#define AUTH_LOGIN_MS (UINT64_C (7) * 24 * 3600 * 1000)
/* For so long after its last login a device is known. */
#define AUTH_DEVICE_MS (UINT64_C (90) * 24 * 3600 * 1000)
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

/* The second factor of a login (totp.h). */
struct auth_totp {
  bool on;
  uint8_t key[TOTP_KEY_BYTES];
  uint64_t used; /* the step of the last code: each is good for one login */
};

struct user {
  TAILQ_ENTRY (user) link;
  char name[64];
  enum auth_role role;
  struct auth_password password;
  struct auth_totp totp;
  uint64_t created;
  bool
    doubted; /* of a database that may be an old one, and not confirmed yet */
};

/* SECRET_DEVICE gives no access: its owner has logged in as this user before,
 * and strangers who try the user's password do not keep the owner out
 * (auth-limit.h).
 */
enum secret_kind {
  SECRET_LOGIN,
  SECRET_TOKEN,
  SECRET_NODE_TOKEN,
  SECRET_DEVICE
};

struct secret {
  TAILQ_ENTRY (secret) link;
  enum secret_kind kind;
  uint8_t hash[AUTH_HASH_BYTES];
  /* The hash of a login's second secret, which the page keeps for its origin
   * alone: browsers send the cookie, whose hash is in `hash`, to every port of
   * the host.
   */
  uint8_t origin_hash[AUTH_HASH_BYTES];
  char name[64];       /* of the user, the token, or the node ("": any) */
  char by[64];         /* the user who made it; a token goes with its user */
  enum auth_role role; /* of a token */
  uint64_t created, used, expires; /* wall clock, ms; 0: never */
  uint64_t stored_used;
  char
    /* a node token: the addresses that it may be certified for */
    addresses[ADDRESSES_BYTES];
  bool spent; /* a node token, which is good for one use: it was used */
  bool
    login; /* a token that stands for a login with a password (weftctl login) */
  bool doubted; /* as a user */
};

/* A node's report of the CAs that it trusts. */
struct truster {
  TAILQ_ENTRY (truster) link;
  char node[64];
  char tag[TRUST_TAG_BYTES];     /* trust_tag */
  char ca[CA_FINGERPRINT_BYTES]; /* of the certificate by which it said so */
};

/* The list of what was revoked, and the doubt that there is a newer one. */
struct auth_doubt {
  uint64_t number; /* of the list */
  uint64_t since;  /* wall clock, ms; 0: there is no doubt */
  /* A newer list that was shown, and by whom; 0: none, weftd was restored or copied. */
  uint64_t list;
  char shown_by[AUTH_CALLER_BYTES];
  char file
    [STORE_IDENTITY_BYTES]; /* in which the database is; "": an earlier weftd's */
  bool copied;              /* the doubt began as it was in another one */
};

/* Lines that the audit trail keeps apart, so that no kind pushes out another.
 */
enum audit_ring {
  /* changes by people and scripts, and tries of administrators */
  AUDIT_CHANGES,
  AUDIT_WORK,    /* changes by nodes */
  AUDIT_REFUSED, /* tries of others */
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
  struct certificates certificates;
  TAILQ_HEAD (, truster) trusters;
  uint64_t revoked_tag;
  struct auth_doubt doubt;
  bool setup;
  uint8_t setup_hash[AUTH_HASH_BYTES];
  const char *setup_file; /* NULL: weftd does not serve yet */
  char setup_url[80];     /* of weftd */

  /* The loop's alone. */
  struct ring audit[AUDIT_RINGS];
  uint64_t audit_last; /* the number of its last line */
  struct audit_log *log;
  char *crl;            /* NULL: not made yet; ... */
  uint64_t crl_tag;     /* ... the list that it is of, ... */
  uint64_t crl_number;  /* ... its number ... */
  unsigned crl_version; /* ... and trust_version */
};

/* ---- auth.c: with the lock held, or on the loop's thread. ---- */

/* A new secret: the text for its owner, the hash for us. */
void auth_words_secret_make (char text[AUTH_SECRET_BYTES],
                             uint8_t hash[AUTH_HASH_BYTES]);
void auth_words_secret_hash (const char *text, uint8_t hash[AUTH_HASH_BYTES]);

struct user *auth_user (const struct auth *a, const char *name);
struct secret *auth_secret (const struct auth *a, enum secret_kind kind,
                            const uint8_t hash[AUTH_HASH_BYTES]);
struct secret *auth_token (const struct auth *a, const char *name);
/* The device of this user that has this secret; NULL: it is none, or is known no longer. */
struct secret *auth_device (const struct auth *a, const char *user,
                            const char *secret, uint64_t wall_ms);
/* Is it a token that a script has: not a login, nor the token that stands for one? */
bool auth_is_script (const struct auth *a, const struct caller *caller);
/* Until when a token may be valid that this caller makes or deletes: a script's not
 * for longer than its own.
 */
uint64_t auth_script_end (const struct auth *a, const struct caller *caller);
/* Is it good for getting the next one: not revoked, and not expired for too long? */
bool auth_certificate_returns (const struct certificate *c, uint64_t wall_ms);
/* Is it known no longer? */
bool auth_secret_is_over (const struct secret *s, uint64_t wall_ms);
/* Is it none that lets its owner in: has it expired?  A login, and a token that enrolls a
 * node, that were made while the clock was ahead would be good for too long.
 */
bool auth_secret_expired (const struct secret *s, uint64_t wall_ms);

/* ---- auth-store.c: the loop's thread; they lock. ---- */

/* Put the object in, or store what has changed of it; takes it over. */
void auth_store_put_user (struct auth *a, struct store_txn *t, struct user *u);
void auth_store_put_secret (struct auth *a, struct store_txn *t,
                            struct secret *s);
void auth_store_put_certificate (struct auth *a, struct store_txn *t,
                                 struct certificate *c);
void auth_store_drop_user (struct auth *a, struct store_txn *t, struct user *u);
void auth_store_drop_secret (struct auth *a, struct store_txn *t,
                             struct secret *s);
void auth_store_drop_certificate (struct auth *a, struct store_txn *t,
                                  struct certificate *c);
/* These are the node's addresses from now on: its next certificate is for them. */
void auth_store_set_addresses (struct auth *a, struct store_txn *t,
                               const char *node, json_t *addresses);
/* The CRL; it stays ours. */
const char *auth_store_crl (struct auth *a);
/* All logins of a user, but for `but` (NULL: none). */
void auth_store_drop_logins (struct auth *a, struct store_txn *t,
                             const char *user, const uint8_t *but);
/* All tokens that a user made, for scripts and for nodes, and the user's
 * devices.
 */
void auth_store_drop_tokens (struct auth *a, struct store_txn *t,
                             const char *user);

/* weftd's database may be an old one: was this certificate made after it, for a node that
 * has one by the database?
 */
bool auth_is_later (const struct auth *a, const struct auth_credentials *given);

#define REVOKED_KIND "revoked"
/* Store the list's number and the doubt. */
void auth_store_put_revoked (const struct auth *a, struct store_txn *t);
/* Something was revoked that an older database would bring back: the list is a newer one. */
void auth_store_revoked (struct auth *a, struct store_txn *t);
/* This certificate is on the list, or is no longer. */
void auth_store_note_revoked (struct auth *a, const struct certificate *c);

/* ---- auth-revoked.c: the loop's thread. ---- */

/* Somebody shows a list of what was revoked, as PEM. */
enum auth_revoked_shown {
  SHOWN_KNOWN,  /* weftd knows all that is on it */
  SHOWN_NEWER,  /* it was taken over */
  SHOWN_FOREIGN /* the cluster's CA has signed no such list */
};
enum auth_revoked_shown auth_revoked_shown (struct auth *a, struct store_txn *t,
                                            const char *pem,
                                            const struct caller *caller,
                                            uint64_t wall_ms);
/* An administrator has looked at all that was revoked. */
void auth_revoked_confirm (struct auth *a, struct store_txn *t);
json_t *auth_revoked_view (struct auth *a);

/* ---- auth-setup.c ---- */

void auth_setup_end (struct auth *a);

/* ---- auth-truster.c: the loop's thread. ---- */

bool auth_truster_load (struct auth *a, const char *key, json_t *object);
/* The node has said that it trusts the CAs of this tag, by a certificate of this CA. */
void auth_truster_said (struct auth *a, struct store_txn *t, const char *node,
                        const char *tag, const char *ca);
void auth_truster_forget (struct auth *a, struct store_txn *t,
                          const char *node);
/* Does the node trust the cluster's CAs, and no other CA? */
bool auth_truster_trusts (const struct auth *a, const char *node);
/* Does the node show a certificate of the next CA, or, if there is none, of the one? */
bool auth_truster_renewed (const struct auth *a, const char *node);
/* Is this CA, named by its fingerprint, trusted now? */
bool auth_truster_has (const struct auth *a, const char *ca);

/* ---- auth-trust.c: the loop's thread. ---- */

/* The CA of the node's next certificate. */
const struct ca *auth_trust_signer (const struct auth *a, const char *node);
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
/* Certificates of another CA than this one are no longer valid. */
void auth_trust_drop_old (struct auth *a, struct store_txn *t);

/* ---- auth-audit.c ---- */

int audit_load (struct auth *a, const char *key, const char *json, char *why,
                size_t why_size);
/* Store what was counted since it was called last. */
void audit_tick (struct auth *a, struct store_txn *t);

/* ---- auth-password.c: slow; from HTTP threads. ---- */

#define PASSWORD_CHARACTERS_MIN 12
#define PASSWORD_BYTES_MAX 256

/* Call password_begin before, and password_end after, password_make and
 * password_is.  False: too many wait already.  known: the caller is logged in, or
 * comes from a device that has logged in before.
 */
bool password_begin (bool known);
void password_end (void);

void password_make (const char *text, struct auth_password *p);
/* Is this the password?  p NULL (there is no such user): false, as slowly as if
 * there were one.
 */
bool password_is (const char *text, const struct auth_password *p);

#endif /* WEFT_AUTH_INTERNAL_H */
