/* routes-ca.c: the cluster's CA: trusted and revoked certificates, and the
 * change to another CA.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "common/clock.h"
#include "auth-internal.h"
#include "routes-internal.h"

/* ---- For everybody. ---- */

static void
answer_pem (struct loop *l, struct request *r, const char *text)
{
  r->text = alloc_copy (text);
  r->type = "application/x-pem-file";
  loop_answer (l, r, 200, NULL);
}

static void
handle_pem (struct loop *l, struct request *r)
{
  answer_pem (l, r, trust_pem (loop_auth (l)->trust));
}

static void
handle_crl (struct loop *l, struct request *r)
{
  answer_pem (l, r, auth_store_crl (loop_auth (l)));
}

/* ---- A node. ---- */

struct trust_input {
  char trusts[TRUST_TAG_BYTES];
};

static void
parse_trust (struct fields *f, struct request *r)
{
  struct trust_input *q = r->input;

  fields_text (f, "trusts", q->trusts, sizeof q->trusts);
  if (strlen (q->trusts) != TRUST_TAG_BYTES - 1 ||
      strspn (q->trusts, "0123456789abcdef") != TRUST_TAG_BYTES - 1)
    fields_fail (f, "trusts",
                 "field trusts must be the SHA-256 of the node's ca-cert.pem: "
                 "64 hexadecimal digits");
  fields_end (f);
}

/* It says what it trusts, and hears what it should; both at once, so that the two fit
 * together on its disk.
 */
static void
handle_trust (struct loop *l, struct request *r)
{
  const struct trust_input *q = r->input;
  struct auth *a = loop_auth (l);
  const struct certificate *c;
  uint64_t now = clock_wall_ms ();
  struct store_txn *t;

  if (enroll_refuse_late (l, r) || enroll_refuse_stranger (l, r))
    return;
  c = certificates_find (&a->certificates, r->name, r->caller.serial);
  t = store_txn_new ();
  auth_truster_said (a, t, r->name, q->trusts, c ? c->ca : "");
  auth_trust_step (a, t, now);
  loop_answer_stored (l, r, 200,
                      json_pack ("{ss ss sb}", "ca", trust_pem (a->trust),
                                 "crl", auth_store_crl (a), "renew",
                                 c && auth_trust_renews (a, c, now)),
                      t);
}

/* ---- Anybody. ---- */

struct shown_input {
  char *crl;
};

static void
parse_shown (struct fields *f, struct request *r)
{
  struct shown_input *q = r->input;
  const char *text = json_string_value (json_object_get (f->object, "crl"));

  if (!fields_has (f, "crl") || text == NULL)
    fields_fail (f, "crl", "field crl must be the text of /ca-crl.pem");
  else {
    fields_get (f, "crl");
    q->crl = alloc_copy (text);
  }
  fields_end (f);
}

static void
forget_shown (void *input)
{
  struct shown_input *q = input;

  free (q->crl);
}

/* The CA's signature proves the list; the caller does not matter. */
static void
handle_shown (struct loop *l, struct request *r)
{
  const struct shown_input *q = r->input;
  struct store_txn *t = store_txn_new ();
  enum auth_revoked_shown shown = auth_revoked_shown (
    loop_auth (l), t, q->crl, &r->caller, clock_wall_ms ());

  if (shown == SHOWN_FOREIGN) {
    loop_store (l, t);
    loop_refuse (l, r, 409, "crl", "other-ca",
                 "no list in it is signed by a CA that weftd has. If the CA "
                 "was rotated after weftd's database was made, restore a "
                 "newer backup, or put the newer ca-key.pem back; or enroll "
                 "this node again");
    return;
  }
  loop_note_doubt (l);
  loop_answer_stored (l, r, 200,
                      json_pack ("{sb}", "newer", shown == SHOWN_NEWER), t);
}

/* ---- An administrator. ---- */

static json_t *
view_ca (struct auth *a, uint64_t wall_ms)
{
  json_t *view = auth_trust_view (a, wall_ms);

  json_object_set_new (view, "revocations", auth_revoked_view (a));
  return view;
}

static void
handle_ca (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_ca (loop_auth (l), clock_wall_ms ()));
}

struct rotate_input {
  bool force;
};

static void
parse_rotate (struct fields *f, struct request *r)
{
  struct rotate_input *q = r->input;

  if (fields_has (f, "force"))
    fields_bool (f, "force", &q->force);
  fields_end (f);
}

static void
handle_rotate (struct loop *l, struct request *r)
{
  const struct rotate_input *q = r->input;
  struct auth *a = loop_auth (l);
  uint64_t now = clock_wall_ms ();
  struct store_txn *t;

  if (trust_phase (a->trust) == TRUST_ONE) {
    struct ca *next = trust_successor (a->trust);
    const char *address;
    const struct certificate *c = auth_trust_outside (a, next, now, &address);

    if (c) {
      ca_free (next);
      loop_refuse (l, r, 409, NULL, "address-outside",
                   "node %s is at %s, which is in no network of weftd's "
                   "--ca-network: start weftd with that network, too, or shut "
                   "the node out: weftctl node revoke %s",
                   c->node, address, c->node);
      return;
    }
    t = store_txn_new ();
    trust_begin (a->trust, next, t, now);
  }
  else
    t = store_txn_new ();
  if (trust_phase (a->trust) == TRUST_SPREAD && q->force)
    trust_renew (a->trust, t);
  auth_trust_step (a, t, now);
  loop_answer_stored (l, r, 200, view_ca (a, now), t);
}

static void
handle_retire (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  uint64_t now = clock_wall_ms ();
  struct store_txn *t;
  char why[256], *waits;
  int failed;

  if (trust_phase (a->trust) == TRUST_ONE) {
    loop_refuse (l, r, 409, NULL, "one-ca",
                 "the cluster trusts one CA alone: weftctl ca rotate makes the "
                 "next one");
    return;
  }
  t = store_txn_new ();
  auth_trust_step (a, t, now);
  waits = r->query.force ? NULL : auth_trust_waits (a, now);
  if (waits) {
    loop_store (l, t);
    loop_refuse (
      l, r, 409, NULL, "nodes-left-behind",
      "these nodes have no certificate of the next CA yet, and would "
      "be shut out: %.300s; run weft-renew there, or shut them out: "
      "weftctl node revoke%s",
      waits,
      auth_in_doubt (a)
        ? ". If the rotation had ended before weftd was restored, nodes trust "
          "the next CA alone: weftctl ca retire --force"
        : "");
    free (waits);
    return;
  }
  failed = trust_retire (a->trust, t, why, sizeof why);
  if (failed) {
    if (failed == -2)
      loop_fail (l, why);
    loop_store (l, t);
    loop_refuse (l, r, 503, NULL, "not-stored", "%s", why);
    return;
  }
  auth_trust_drop_old (a, t);
  loop_note_doubt (l);
  loop_answer_stored (l, r, 200, view_ca (a, now), t);
}

const struct route routes_ca[] = {
  { "GET", "/ca.pem", .who = WHO_ANYBODY, .handle = handle_pem },
  { "GET", "/ca-crl.pem", .who = WHO_ANYBODY, .handle = handle_crl },
  { "GET", V1 "/ca", .handle = handle_ca },
  { "POST", V1 "/ca/rotate", .input = sizeof (struct rotate_input),
    .parse = parse_rotate, .handle = handle_rotate },
  { "POST", V1 "/ca/retire", .query = QUERY_FORCE, .handle = handle_retire },
  { "PUT", V1 "/revocations", .who = WHO_ANYBODY, .proves = true,
    .input = sizeof (struct shown_input), .parse = parse_shown,
    .forget = forget_shown, .handle = handle_shown },
  { "PUT", V1 "/nodes/{name}/trust", .who = WHO_NODE, .late = true,
    .input = sizeof (struct trust_input), .parse = parse_trust,
    .handle = handle_trust },
  { NULL },
};
