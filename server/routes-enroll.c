/* routes-enroll.c: nodes that join, and their certificates.
 *
 * A token lets one host ask once for a certificate.  The host keeps its key and
 * sends a request that this key has signed.  In one transaction the token is
 * spent, the node's record made and its certificate stored.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "common/clock.h"
#include "auth-request.h"
#include "pki/enrollment.h"
#include "routes-internal.h"

/* That are good at a time: of the node itself, as of each of its processes; and of all. */
#define CERTIFICATES_OF_ONE_MAX 32
#define CERTIFICATES_OF_NODE_MAX 1024

/* ---- Reading bodies. ---- */

static void
take_csr (struct fields *f, struct auth_request *q)
{
  const char *text = json_string_value (json_object_get (f->object, "csr"));

  if (!fields_has (f, "csr") || text == NULL || strlen (text) > PEM_BYTES_MAX) {
    fields_fail (f, "csr",
                 "field csr must be a certificate request in PEM, such as "
                 "openssl req makes");
    return;
  }
  fields_get (f, "csr");
  q->csr = alloc_copy (text);
}

static void
parse_enroll (struct fields *f, struct request *r)
{
  struct auth_request *q = r->input;

  fields_text (f, "token", q->secret, sizeof q->secret);
  fields_name (f, "node", q->name, sizeof q->name);
  strcpy (r->subject, q->name);
  take_csr (f, q);
  fields_end (f);
}

static void
parse_certificate (struct fields *f, struct request *r)
{
  struct auth_request *q = r->input;

  strcpy (q->name, r->name);
  take_csr (f, q);
  fields_end (f);
}

/* ---- What is asked for. ---- */

/* Is this secret good for this node?  With the lock held. */
static bool
token_is_good (const struct auth *a, const struct auth_request *q,
               uint64_t wall_ms, struct secret **token, struct refusal *p)
{
  uint8_t hash[AUTH_HASH_BYTES];
  struct secret *s;

  auth_words_secret_hash (q->secret, hash);
  s = auth_secret (a, SECRET_NODE_TOKEN, hash);
  *token = s;
  if (s == NULL || (s->name[0] && strcmp (s->name, q->name) != 0))
    return text_refuse (
      p, 403, "token", "token-wrong",
      "this token is not known, or is for another node: weftctl "
      "node token makes one");
  if (s->spent)
    return text_refuse (
      p, 403, "token", "token-used",
      "this token was used already: weftctl node token makes another");
  if (auth_secret_expired (s, wall_ms))
    return text_refuse (
      p, 403, "token", "token-expired",
      "this token has expired: weftctl node token makes another");
  return true;
}

/* A token without a name is for new nodes: else its holder could take the certificate of a
 * node that may be at work, or the rights of a node that was shut out, or of one that is to
 * come.
 */
static bool
name_is_new (struct loop *l, const char *name, struct refusal *p)
{
  const struct cluster *c = loop_cluster (l);
  const struct cluster_array *a;
  bool is_known = cluster_node_find (c, name) != NULL ||
                  certificates_count (&loop_auth (l)->certificates, name, NULL,
                                      0) > 0;

  TAILQ_FOREACH (a, cluster_arrays (c), link)
    is_known |= cluster_allowed_find (&a->rec.allow, name) != NULL;
  return !is_known ||
         text_refuse (p, 409, "node", "enrolled",
                      "%s is a node already, or in the list of an array, and "
                      "this token is for new ones: make a token for %s: "
                      "weftctl node token %s",
                      name, name, name);
}

static struct enrollment
enrollment_of (const struct auth *a)
{
  return (struct enrollment) { .certificates = &a->certificates,
                               .trust = a->trust,
                               .own = &a->own };
}

/* May the node have a certificate for these names? */
static bool
names_are_free (const struct auth *a, const struct auth_request *q,
                const struct secret *token, const struct caller *caller,
                struct refusal *p)
{
  const struct enrollment e = enrollment_of (a);
  const struct enrollment_ask ask = { .node = q->name,
                                      .names = &q->names,
                                      .given = token->addresses,
                                      .from = caller->address };

  return enrollment_permits (&e, &ask, p);
}

/* ---- On the HTTP thread. ---- */

static bool
read_request (struct loop *l, struct request *r)
{
  struct auth_request *q = r->input;
  char why[256];

  q->key = ca_read_request (q->csr, &q->names, why, sizeof why);
  if (q->key && q->names.process[0])
    snprintf (r->subject, sizeof r->subject, "%s, %s", q->name,
              q->names.process);
  if (q->key)
    return true;
  r->status = 422;
  r->body = view_error (422, "csr", "csr", why);
  return false;
}

/* Nothing is done for those who have no token. */
static bool
prepare_enroll (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  struct secret *token;
  struct refusal p;
  bool good;

  pthread_mutex_lock (&a->lock);
  good = token_is_good (a, q, clock_wall_ms (), &token, &p);
  pthread_mutex_unlock (&a->lock);
  return !good || read_request (l, r);
}

/* ---- On the loop's thread. ---- */

static void
handle_enroll (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  struct secret *token;
  struct refusal p;

  if (!token_is_good (a, q, clock_wall_ms (), &token, &p) ||
      (token->name[0] == '\0' && !name_is_new (l, q->name, &p)) ||
      !names_are_free (a, q, token, &r->caller, &p)) {
    loop_refuse (l, r, p.status, p.field, p.code, "%s", p.why);
    return;
  }
  /* Goes on in reply_enroll. */
  cluster_node_add (loop_cluster (l), loop_input (l, r), q->name);
}

/* A certificate for the key in r, and these addresses, as the answer.  node may
 * be NULL.
 */
static json_t *
issue (struct loop *l, struct request *r, struct store_txn *t, const char *node,
       json_t *addresses)
{
  struct auth *a = loop_auth (l);
  const struct auth_request *q = r->input;
  char *pem;
  struct certificate *c = certificate_sign (
    auth_trust_signer (a, q->name), q->key, q->name, q->names.process,
    addresses, ca_seconds (a->certificate_seconds), &pem);
  json_t *body;

  auth_store_put_certificate (a, t, c);
  body = json_pack ("{ss* ss ss}", "node", node, "certificate", pem, "ca",
                    trust_pem (a->trust));
  free (pem);
  return body;
}

/* The engine has taken the node; the rest of its enrollment goes along with
 * that.
 */
static json_t *
reply_enroll (struct loop *l, struct request *r, const struct cluster_output *o,
              struct store_txn *t, int *status)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  struct secret *token;
  struct refusal p;
  json_t *addresses;

  /* Nothing has come between. */
  if (!token_is_good (a, q, clock_wall_ms (), &token, &p)) {
    *status = p.status;
    return view_error (p.status, p.field, p.code, p.why);
  }
  pthread_mutex_lock (&a->lock);
  token->spent = true;
  pthread_mutex_unlock (&a->lock);
  auth_store_put_secret (a, t, token);
  auth_forget_node (a, t, q->name); /* a host that was set up again */
  addresses = json_array ();
  for (unsigned i = 0; i < q->names.address_count; i++)
    json_array_append_new (addresses, json_string (q->names.address[i]));
  *status = 201;
  return issue (l, r, t, q->name, addresses);
}

bool
enroll_refuse_stranger (struct loop *l, struct request *r)
{
  if (certificates_count (&loop_auth (l)->certificates, r->name, NULL, 0) > 0)
    return false;
  loop_refuse (l, r, 404, NULL, "unknown-node",
               "node %s has no certificate: enroll it, with weft-enroll",
               r->name);
  return true;
}

/* A node that was away for longer than its certificate lasts is known by it still,
 * unless that was revoked meanwhile; nobody else is heard on that ground.
 */
bool
enroll_refuse_late (struct loop *l, struct request *r)
{
  if (!r->caller.late || (strcmp (r->caller.name, r->name) == 0 &&
                          certificates_find (&loop_auth (l)->certificates,
                                             r->name, r->caller.serial)))
    return false;
  loop_refuse (l, r, 401, NULL, "login-required", "%s", AUTH_EXPIRED);
  return true;
}

/* The old one is good until it expires: the new one may not arrive. */
static void
handle_certificate (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  uint64_t now = clock_wall_ms ();
  const struct auth_request *q = r->input;
  struct certificate *c, *next;
  struct store_txn *t;
  json_t *addresses;

  if (enroll_refuse_late (l, r) || enroll_refuse_stranger (l, r))
    return;
  if (certificates_count (&a->certificates, r->name, q->names.process, now) >=
        CERTIFICATES_OF_ONE_MAX ||
      (q->names.process[0] &&
       certificates_count (&a->certificates, r->name, NULL, now) >=
         CERTIFICATES_OF_NODE_MAX)) {
    loop_refuse (l, r, 409, NULL, "too-many",
                 "node %s has %u certificates that are good for one process, "
                 "or %u for all: it gets the next one when one of them has "
                 "expired",
                 r->name, CERTIFICATES_OF_ONE_MAX, CERTIFICATES_OF_NODE_MAX);
    return;
  }
  /* All addresses of the node, whichever the request names. */
  addresses = auth_node_addresses (a, r->name);
  t = store_txn_new ();
  /* By what has expired nobody need come back now, but by that of this very call: its
   * answer may not arrive.
   */
  TAILQ_FOREACH_SAFE (c, &a->certificates, link, next)
    if (c->revoked == 0 && c->expires <= now &&
        strcmp (c->node, r->name) == 0 &&
        strcmp (c->serial, r->caller.serial) != 0)
      auth_store_drop_certificate (a, t, c);
  loop_answer_stored (l, r, 201, issue (l, r, t, NULL, addresses), t);
}

/* Its certificates are no longer valid from here on, and the engine ends the
 * rest.  A node without a certificate may be shut out, too: its connections may
 * still be open, and it may have been shut out before when a member could not
 * be reached.
 */
static void
handle_revoke (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  struct store_txn *t;
  char by[AUTH_CALLER_BYTES];

  if (!cluster_node_known (loop_cluster (l), r->name) &&
      enroll_refuse_stranger (l, r))
    return;
  t = store_txn_new ();
  auth_forget_node (a, t, r->name);
  loop_store (l, t);
  auth_caller_words (&r->caller, by);
  cluster_node_shut_out (loop_cluster (l), loop_input (l, r), r->name, by);
}

static json_t *
reply_revoke (struct loop *l, struct request *r, const struct cluster_output *o,
              struct store_txn *t, int *status)
{
  return json_pack ("{ss sb so}", "name", o->name, "deleted", 1, "unconfirmed",
                    view_unconfirmed (loop_cluster (l)));
}

static void
parse_addresses (struct fields *f, struct request *r)
{
  struct auth_request *q = r->input;

  addresses_take (f, "addresses", true, q->addresses);
  fields_end (f);
}

/* For the node's next certificate; its present ones are valid until they
 * expire.
 */
static void
handle_addresses (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  const struct enrollment e = enrollment_of (a);
  json_t *list, *present;
  struct store_txn *t;
  struct refusal p;
  bool permitted;

  if (enroll_refuse_stranger (l, r))
    return;
  list = addresses_list (q->addresses);
  present = auth_node_addresses (a, r->name);
  permitted = enrollment_permits_addresses (&e, r->name, present, list, &p);
  json_decref (present);
  if (!permitted) {
    loop_refuse (l, r, p.status, p.field, p.code, "%s", p.why);
    json_decref (list);
    return;
  }
  t = store_txn_new ();
  auth_store_set_addresses (a, t, r->name, list);
  loop_answer_stored (
    l, r, 200, json_pack ("{ss so}", "name", r->name, "addresses", list), t);
}

const struct route routes_enroll[] = {
  { "POST", V1 "/enroll", .who = WHO_ANYBODY, .secret = true, AUTH_INPUT,
    .parse = parse_enroll, .prepare = prepare_enroll, .handle = handle_enroll,
    .reply = reply_enroll },
  { "POST", V1 "/nodes/{name}/certificate", .who = WHO_NODE, .secret = true,
    .late = true, AUTH_INPUT, .parse = parse_certificate,
    .prepare = read_request, .handle = handle_certificate },
  { "PUT", V1 "/nodes/{name}/addresses", AUTH_INPUT, .parse = parse_addresses,
    .handle = handle_addresses },
  { "DELETE", V1 "/nodes/{name}/certificate", .who = WHO_ADMIN,
    .handle = handle_revoke, .reply = reply_revoke },
  { NULL },
};
