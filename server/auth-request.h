/* auth-request.h: the fields of requests about users, tokens and nodes. */

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
  char device[AUTH_SECRET_BYTES];  /* of a login; "": not given */
  char code[TOTP_CODE_BYTES];      /* of the second factor; "": not given */
  bool on;                         /* the second factor */
  uint64_t seconds;                /* 0: not given */
  bool login;                      /* the token is of a login */
  char addresses[ADDRESSES_BYTES]; /* of a node, as addresses_take has them */
  char *csr;             /* a request for a certificate, as PEM; ... */
  EVP_PKEY *key;         /* ... its key, ... */
  struct ca_names names; /* ... and the names that it asks for */

  /* As found out on the HTTP thread. */
  bool verified; /* the password, against `old` */
  struct auth_password old, new;
  struct auth_totp
    totp; /* of the user, with the code's step where it is right */
  enum totp_answer answer;
};

/* For the line of a route whose input is a struct auth_request. */
#define AUTH_INPUT                                                             \
  .input = sizeof (struct auth_request), .forget = auth_request_forget
void auth_request_forget (void *input);

/* ---- routes-login.c ---- */

/* Take the field of a new password, which must be long enough. */
void auth_request_password (struct fields *f, struct auth_request *a);
/* On the HTTP thread: is `given` the password of `user`?  *r->auth says so.  With AUTH_CODE
 * the code of the second factor has to be right, too, if the user has one; AUTH_CODE_ALONE:
 * only that is asked for, and `given` is NULL.
 * False: it was not looked at, and the answer is in r.
 */
enum auth_factors { AUTH_PASSWORD, AUTH_CODE, AUTH_CODE_ALONE };
bool auth_request_try (struct loop *l, struct request *r, const char *user,
                       const char *given, enum auth_factors factors);
/* On the loop's thread: refuse a code that was missing or wrong, or is not good any more.
 * False: it is right, or none is needed; it can't be used again.
 */
bool auth_request_refuse_code (struct loop *l, struct request *r,
                               struct user *u, int status);
/* Take the field `code`. */
void auth_request_code (struct fields *f, struct auth_request *a);
/* On the HTTP thread: make the hash of a new password.  False: as above. */
bool auth_request_make_password (struct loop *l, struct request *r);
struct user *auth_request_new_user (struct loop *l,
                                    const struct auth_request *q);
/* Change a user.  role ROLE_NOBODY, password NULL: leave it as it was. */
void auth_request_set_user (struct auth *a, struct user *u, enum auth_role role,
                            const struct auth_password *password);

/* The second factor's key; NULL: the user has none. */
void auth_request_set_totp (struct auth *a, struct user *u, const uint8_t *key);

#endif /* WEFT_AUTH_REQUEST_H */
