/* routes-enroll.c: nodes that join, and their certificates.
 *
 * A token lets one host ask once for a certificate.  The host keeps its key;
 * what it sends is a request, signed by that key.  The token is spent, the
 * node's record made and its certificate stored in one transaction.
 */

#include <config.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "common/clock.h"
#include "auth-request.h"
#include "routes-internal.h"

#define CERTIFICATES_OF_NODE_MAX 3

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

/* How many certificates the node has; *oldest: the first of them that is not the
 * one with this serial number.
 */
static unsigned
certificates_of (const struct auth *a, const char *node, const char *serial,
                 struct certificate **oldest)
{
  struct certificate *c;
  unsigned count = 0;

  *oldest = NULL;
  TAILQ_FOREACH (c, &a->certificates, link)
    if (strcmp (c->node, node) == 0) {
      count++;
      if (*oldest == NULL && strcmp (c->serial, serial) != 0)
        *oldest = c;
    }
  return count;
}

/* Is this secret good for this node?  With the lock held. */
static bool
token_is_good (const struct auth *a, const struct auth_request *q,
               uint64_t wall_ms, struct secret **token, struct refusal *p)
{
  uint8_t hash[AUTH_HASH_BYTES];
  struct certificate *oldest;
  struct secret *s;

  auth_secret_hash (q->secret, hash);
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
  if (wall_ms >= s->expires)
    return text_refuse (
      p, 403, "token", "token-expired",
      "this token has expired: weftctl node token makes another");
  /* It would take the certificate of a node that may be at work. */
  if (s->name[0] == '\0' && certificates_of (a, q->name, "", &oldest) > 0)
    return text_refuse (
      p, 409, "node", "enrolled",
      "%s is a node already, and this token is for new ones: make "
      "a token for %s: weftctl node token %s",
      q->name, q->name, q->name);
  return true;
}

static bool
is_loopback (const char *address)
{
  return strncmp (address, "127.", 4) == 0 || strcmp (address, "::1") == 0;
}

/* Can it be the address of one host, as it is written? */
static bool
is_of_a_host (const char *address)
{
  struct in6_addr six;
  struct in_addr four;

  if (inet_pton (AF_INET6, address, &six) == 1)
    return !IN6_IS_ADDR_UNSPECIFIED (&six) && !IN6_IS_ADDR_MULTICAST (&six) &&
           !IN6_IS_ADDR_V4MAPPED (&six);
  return inet_pton (AF_INET, address, &four) == 1 &&
         four.s_addr != htonl (INADDR_ANY) &&
         four.s_addr != htonl (INADDR_BROADCAST) &&
         !IN_MULTICAST (ntohl (four.s_addr));
}

/* The node that has a certificate for this address, but for `but`; NULL: none. */
static const char *
node_at (const struct auth *a, const char *address, const char *but)
{
  const struct certificate *c;

  TAILQ_FOREACH (c, &a->certificates, link)
    for (size_t i = 0; i < json_array_size (c->addresses); i++)
      if (strcmp (c->node, but) != 0 &&
          strcmp (json_string_value (json_array_get (c->addresses, i)),
                  address) == 0)
        return c->node;
  return NULL;
}

/* May the node have a certificate for these names? */
static bool
names_are_free (const struct auth *a, const struct auth_request *q,
                const struct caller *caller, struct refusal *p)
{
  bool loopback = is_loopback (caller->address);

  for (unsigned i = 0; i < q->names.dns_count; i++)
    if (strcmp (q->names.dns[i], q->name) != 0)
      return text_refuse (
        p, 422, "csr", "csr",
        "field csr: the only DNS name in it may be the node's");
  for (unsigned i = 0; i < q->names.address_count; i++) {
    const char *address = q->names.address[i];
    bool of_a_host = is_of_a_host (address);

    if (!of_a_host || (is_loopback (address) && !loopback))
      return text_refuse (
        p, 422, "csr", "csr",
        "field csr: the address %s %s: give one at which other "
        "hosts reach this one",
        address, of_a_host ? "is loopback" : "is of no host");
  }
  /* Only on weftd's own host may a node be called as that is. */
  for (unsigned i = 0; i < a->own.dns_count; i++)
    if (strcmp (a->own.dns[i], q->name) == 0 && !loopback &&
        !auth_is_own_address (a, caller->address))
      return text_refuse (
        p, 409, "node", "address-in-use",
        "%s is the name of weftd's host: a node on it must enroll "
        "from there; give another name",
        q->name);
  for (unsigned i = 0; i < q->names.address_count; i++) {
    const char *address = q->names.address[i];
    const char *other = node_at (a, address, q->name);

    if (other)
      return text_refuse (
        p, 409, "csr", "address-in-use",
        "the address %s is node %s's: give another, or remove that node first",
        address, other);
    if (auth_is_own_address (a, address) && !loopback &&
        strcmp (caller->address, address) != 0)
      return text_refuse (
        p, 409, "csr", "address-in-use",
        "the address %s is weftd's: a node on its host must enroll from there",
        address);
  }
  return true;
}

/* ---- On the HTTP thread. ---- */

static bool
read_request (struct loop *l, struct request *r)
{
  struct auth_request *q = r->input;
  char why[256];

  q->key = ca_read_request (q->csr, &q->names, why, sizeof why);
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
      !names_are_free (a, q, &r->caller, &p)) {
    loop_refuse (l, r, p.status, p.field, p.code, "%s", p.why);
    return;
  }
  /* Goes on in reply_enroll. */
  cluster_node_add (loop_cluster (l), loop_input (l, r), q->name);
}

/* A certificate for the request in r: what is answered.  node may be NULL. */
static json_t *
issue (struct loop *l, struct request *r, struct store_txn *t, const char *node)
{
  struct auth *a = loop_auth (l);
  const struct auth_request *q = r->input;
  struct certificate *c = alloc_zeroed (sizeof *c);
  struct ca_certificate made;
  struct ca_names names = q->names;
  json_t *body;
  char *pem;

  names.dns_count = 1;
  strcpy (names.dns[0], q->name);
  ca_sign (a->ca, q->key, q->name, &names, true,
           ca_seconds (AUTH_CERTIFICATE_SECONDS), &made);
  strcpy (c->serial, made.serial);
  strcpy (c->node, q->name);
  c->created = made.created;
  c->expires = made.expires;
  c->addresses = json_array ();
  for (unsigned i = 0; i < names.address_count; i++)
    json_array_append_new (c->addresses, json_string (names.address[i]));
  auth_put_certificate (a, t, c);
  pem = ca_print (made.x509);
  X509_free (made.x509);
  body = json_pack ("{ss* ss ss}", "node", node, "certificate", pem, "ca",
                    ca_pem (a->ca));
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

  /* Nothing has come between. */
  if (!token_is_good (a, q, clock_wall_ms (), &token, &p)) {
    *status = p.status;
    return view_error (p.status, p.field, p.code, p.why);
  }
  pthread_mutex_lock (&a->lock);
  token->spent = true;
  pthread_mutex_unlock (&a->lock);
  auth_put_secret (a, t, token);
  auth_forget_node (a, t, q->name); /* a host that was set up anew */
  *status = 201;
  return issue (l, r, t, q->name);
}

static bool
refuse_stranger (struct loop *l, struct request *r, unsigned certificates)
{
  if (certificates > 0)
    return false;
  loop_refuse (l, r, 404, NULL, "unknown-node",
               "node %s has no certificate: enroll it, with weft-enroll",
               r->name);
  return true;
}

/* The old one is good until it expires: the new one may not arrive. */
static void
handle_certificate (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  struct certificate *oldest;
  unsigned count = certificates_of (a, r->name, r->caller.serial, &oldest);
  struct store_txn *t;
  struct refusal p;

  if (refuse_stranger (l, r, count))
    return;
  if (!names_are_free (a, q, &r->caller, &p)) {
    loop_refuse (l, r, p.status, p.field, p.code, "%s", p.why);
    return;
  }
  t = store_txn_new ();
  if (count >= CERTIFICATES_OF_NODE_MAX)
    auth_drop_certificate (a, t, oldest);
  loop_answer_stored (l, r, 201, issue (l, r, t, NULL), t);
}

/* Its certificates go with the engine's answer. */
static void
handle_revoke (struct loop *l, struct request *r)
{
  struct certificate *oldest;
  char by[AUTH_CALLER_BYTES];

  if (refuse_stranger (l, r,
                       certificates_of (loop_auth (l), r->name, "", &oldest)))
    return;
  auth_caller_words (&r->caller, by);
  cluster_node_shut_out (loop_cluster (l), loop_input (l, r), r->name, by);
}

static void
handle_ca (struct loop *l, struct request *r)
{
  r->text = alloc_copy (ca_pem (loop_auth (l)->ca));
  r->type = "application/x-pem-file";
  loop_answer (l, r, 200, NULL);
}

const struct route routes_enroll[] = {
  { "POST", V1 "/enroll", .who = WHO_ANYBODY, .secret = true, AUTH_INPUT,
    .parse = parse_enroll, .prepare = prepare_enroll, .handle = handle_enroll,
    .reply = reply_enroll },
  { "POST", V1 "/nodes/{name}/certificate", .who = WHO_NODE, .secret = true,
    AUTH_INPUT, .parse = parse_certificate, .prepare = read_request,
    .handle = handle_certificate },
  { "DELETE", V1 "/nodes/{name}/certificate", .who = WHO_ADMIN,
    .handle = handle_revoke },
  { "GET", "/ca.pem", .who = WHO_ANYBODY, .handle = handle_ca },
  { NULL },
};
