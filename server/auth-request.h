/* auth-request.h: what a request about users, tokens and nodes brings along. */

#ifndef WEFT_AUTH_REQUEST_H
#define WEFT_AUTH_REQUEST_H

#include "auth-internal.h"
#include "fields.h"
#include "loop.h"

#define PEM_BYTES_MAX 16384

struct auth_request {
  char name[64];       /* of a user, a token or a node */
  enum auth_role role; /* ROLE_NOBODY: not given */
  char password[PASSWORD_BYTES_MAX + 1], current[PASSWORD_BYTES_MAX + 1];
  char secret[AUTH_SECRET_BYTES];
  uint64_t seconds;                /* 0: not given */
  bool login;                      /* the token is of a login */
  char addresses[ADDRESSES_BYTES]; /* of a node, as addresses_take has them */
  char *csr;             /* a request for a certificate, as PEM; ... */
  EVP_PKEY *key;         /* ... its key, ... */
  struct ca_names names; /* ... and the names that it asks for */

  /* As found out on the HTTP thread. */
  bool verified; /* the password, against `old` */
  struct auth_password old, new;
};

/* For the line of a route whose input is a struct auth_request. */
#define AUTH_INPUT                                                             \
  .input = sizeof (struct auth_request), .forget = auth_request_forget
void auth_request_forget (void *input);

/* ---- routes-login.c ---- */

/* Take the field of a new password, which must be long enough. */
void auth_take_password (struct fields *f, struct auth_request *a);
/* On the HTTP thread: is `given` the password of `user`?  *r->auth says so.
 * False: it was not looked at, and the answer is in r.
 */
bool auth_try_password (struct loop *l, struct request *r, const char *user,
                        const char *given);
/* On the HTTP thread: make the hash of a new password.  False: as above. */
bool auth_make_password (struct loop *l, struct request *r);
struct user *auth_new_user (struct loop *l, const struct auth_request *q);
/* Change a user.  role ROLE_NOBODY, password NULL: leave it as it was. */
void auth_set_user (struct auth *a, struct user *u, enum auth_role role,
                    const struct auth_password *password);

#endif /* WEFT_AUTH_REQUEST_H */
