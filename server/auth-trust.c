/* auth-trust.c: a CA takes the other's place: which nodes have learned of it.
 *
 * A node says which CAs are in its folder, by a certificate that it has: a record of
 * kind "trust" (key: its name).  So what is known is what is on its disk, and what it
 * really shows, whatever answers were lost.  Nobody is shown a certificate of the next
 * CA before all trust it, and the former is not taken away before all have one:
 *
 *   TRUST_SPREAD waits for who has a certificate that is good: once it has expired, a
 *   node is believed by nobody until it has asked for the next one, and hears of both.
 *   TRUST_RENEW waits for who could come back at all.  An administrator ends it, and
 *   shuts out first whom that leaves behind.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "auth-internal.h"
#include "base/name.h"
#include "log.h"
#include "text.h"

static struct truster *
find (const struct auth *a, const char *node)
{
  struct truster *r;

  TAILQ_FOREACH (r, &a->trusters, link)
    if (strcmp (r->node, node) == 0)
      return r;
  return NULL;
}

static void
put (struct auth *a, const char *node, const char *tag, const char *ca)
{
  struct truster *r = find (a, node);

  if (r == NULL) {
    r = alloc_zeroed (sizeof *r);
    snprintf (r->node, sizeof r->node, "%s", node);
    TAILQ_INSERT_TAIL (&a->trusters, r, link);
  }
  snprintf (r->tag, sizeof r->tag, "%s", tag);
  snprintf (r->ca, sizeof r->ca, "%s", ca);
}

bool
trust_load_node (struct auth *a, const char *key, json_t *object)
{
  const char *tag, *ca;

  if (!name_valid (key) ||
      json_unpack (object, "{ss ss}", "trusts", &tag, "ca", &ca) == -1)
    return false;
  put (a, key, tag, ca);
  return true;
}

void
auth_trust_said (struct auth *a, struct store_txn *t, const char *node,
                 const char *tag, const char *ca)
{
  const struct truster *r = find (a, node);

  if (r && strcmp (r->tag, tag) == 0 && strcmp (r->ca, ca) == 0)
    return;
  put (a, node, tag, ca);
  store_txn_put (t, "trust", node,
                 json_pack ("{ss ss}", "trusts", tag, "ca", ca));
}

void
auth_trust_forget (struct auth *a, struct store_txn *t, const char *node)
{
  struct truster *r = find (a, node);

  if (r == NULL)
    return;
  store_txn_put (t, "trust", node, NULL);
  TAILQ_REMOVE (&a->trusters, r, link);
  free (r);
}

bool
auth_trusts (const struct auth *a, const char *node)
{
  const struct truster *r = find (a, node);

  return r && strcmp (r->tag, trust_tag (a->trust)) == 0;
}

/* Does it show a certificate of the next CA, or, where there is none, of the one? */
static bool
has_renewed (const struct auth *a, const char *node)
{
  const struct truster *r = find (a, node);
  const struct ca *next = trust_next (a->trust);

  return r && strcmp (r->ca,
                      ca_fingerprint (next ? next : trust_ca (a->trust))) == 0;
}

const struct ca *
auth_trust_signer (const struct auth *a, const char *node)
{
  return trust_phase (a->trust) == TRUST_RENEW && auth_trusts (a, node)
           ? trust_next (a->trust)
           : trust_ca (a->trust);
}

bool
auth_trust_has (const struct auth *a, const char *ca)
{
  const struct ca *next = trust_next (a->trust);

  return strcmp (ca, ca_fingerprint (trust_ca (a->trust))) == 0 ||
         (next && strcmp (ca, ca_fingerprint (next)) == 0);
}

/* A third of its life is over, or it is of a CA whose place another one takes. */
bool
auth_trust_renews (const struct auth *a, const struct certificate *c,
                   uint64_t wall_ms)
{
  uint64_t life = c->expires - c->created;

  if (wall_ms + life / 3 * 2 > c->expires)
    return true;
  return trust_phase (a->trust) == TRUST_RENEW && auth_trusts (a, c->node) &&
         strcmp (c->ca, ca_fingerprint (trust_next (a->trust))) != 0;
}

/* Has the node a certificate that is good now? */
static bool
is_good (const struct certificate *c, uint64_t wall_ms)
{
  return c->revoked == 0 && wall_ms < c->expires;
}

static bool
is_waited_for (const struct auth *a, const struct certificate *c,
               uint64_t wall_ms)
{
  switch (trust_phase (a->trust)) {
  case TRUST_ONE:
    return false;
  case TRUST_SPREAD:
    return is_good (c, wall_ms) && !auth_trusts (a, c->node);
  case TRUST_RENEW:
    return auth_certificate_returns (c, wall_ms) && !has_renewed (a, c->node);
  }
  abort ();
}

const struct certificate *
auth_trust_outside (const struct auth *a, const struct ca *ca, uint64_t wall_ms,
                    const char **address)
{
  const struct certificate *c;
  json_t *one;
  size_t i;

  TAILQ_FOREACH (c, &a->certificates, link) {
    if (!auth_certificate_returns (c, wall_ms))
      continue;
    json_array_foreach (c->addresses, i, one) {
      *address = json_string_value (one);
      if (!ca_permits (ca, *address))
        return c;
    }
  }
  return NULL;
}

char *
auth_trust_waits (struct auth *a, uint64_t wall_ms)
{
  const struct certificate *c;
  json_t *seen = json_object ();
  char *list = NULL, *longer;

  TAILQ_FOREACH (c, &a->certificates, link)
    if (is_waited_for (a, c, wall_ms) &&
        json_object_get (seen, c->node) == NULL) {
      json_object_set_new (seen, c->node, json_true ());
      longer = list ? alloc_print ("%s, %s", list, c->node)
                    : alloc_copy (c->node);
      free (list);
      list = longer;
    }
  json_decref (seen);
  return list;
}

void
auth_trust_step (struct auth *a, struct store_txn *t, uint64_t wall_ms)
{
  char *waits;

  if (trust_settle (a->trust, t))
    auth_trust_drop_old (a, t);
  if (trust_phase (a->trust) != TRUST_SPREAD)
    return;
  waits = auth_trust_waits (a, wall_ms);
  if (waits == NULL) {
    trust_renew (a->trust, t);
    log_line (CLUSTER_INFO,
              "every node trusts the next CA: they get certificates of it");
  }
  free (waits);
}

/* Those on the CRL stay there: a node may not have heard yet that their CA is of use
 * no more.
 */
void
auth_trust_drop_old (struct auth *a, struct store_txn *t)
{
  const char *one = ca_fingerprint (trust_ca (a->trust));
  struct certificate *c, *next;

  TAILQ_FOREACH_SAFE (c, &a->certificates, link, next)
    if (c->revoked == 0 && strcmp (c->ca, one) != 0)
      auth_drop_certificate (a, t, c);
}

/* ---- What is said of it. ---- */

static json_t *
view_one (const struct ca *ca)
{
  char subject[CA_SUBJECT_BYTES];
  uint64_t since, until;

  if (ca == NULL)
    return json_null ();
  ca_subject (ca, subject);
  ca_times (ca, &since, &until);
  return json_pack ("{ss so so so sb}", "fingerprint", ca_fingerprint (ca),
                    "subject", text_string (subject), "since",
                    text_time (since), "until", text_time (until), "bound",
                    ca_is_constrained (ca));
}

static json_t *
view_nodes_of (struct auth *a, uint64_t wall_ms)
{
  json_t *list = json_array (), *seen = json_object (), *view;
  const struct certificate *c;

  TAILQ_FOREACH (c, &a->certificates, link) {
    view = json_object_get (seen, c->node);
    if (!auth_certificate_returns (c, wall_ms))
      continue;
    if (view == NULL) {
      view = json_pack ("{ss sb sb sb}", "node", c->node, "trusts",
                        auth_trusts (a, c->node), "renewed",
                        has_renewed (a, c->node), "waited_for", 0);
      json_object_set_new (seen, c->node, view);
      json_array_append (list, view);
    }
    if (is_waited_for (a, c, wall_ms))
      json_object_set_new (view, "waited_for", json_true ());
  }
  json_decref (seen);
  return list;
}

json_t *
auth_trust_view (struct auth *a, uint64_t wall_ms)
{
  return json_pack (
    "{ss so so so so}", "rotation", trust_phase_word (trust_phase (a->trust)),
    "rotation_since", text_time (trust_since (a->trust)), "ca",
    view_one (trust_ca (a->trust)), "next", view_one (trust_next (a->trust)),
    "nodes", view_nodes_of (a, wall_ms));
}
