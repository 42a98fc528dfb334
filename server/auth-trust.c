/* auth-trust.c: one CA replaces another: which nodes trust the new one.
 *
 * No node is given a certificate of the next CA before all nodes trust that CA,
 * and the former CA stays trusted until all nodes have such a certificate:
 *
 *   TRUST_SPREAD waits for nodes with a valid certificate. A node whose
 *   certificate has expired asks for the next one before anything else, and then
 *   gets both CAs.
 *   TRUST_RENEW waits for all nodes that could come back. An administrator ends
 *   it, and first shuts out the nodes that are left behind.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "auth-internal.h"
#include "fields.h"
#include "log.h"
#include "text.h"

const struct ca *
auth_trust_signer (const struct auth *a, const char *node)
{
  return trust_phase (a->trust) == TRUST_RENEW && auth_truster_trusts (a, node)
           ? trust_next (a->trust)
           : trust_ca (a->trust);
}

/* A third of its life is over, or it is of a CA whose place another one takes. */
bool
auth_trust_renews (const struct auth *a, const struct certificate *c,
                   uint64_t wall_ms)
{
  uint64_t life = c->expires - c->created;

  if (wall_ms + life / 3 * 2 > c->expires)
    return true;
  return trust_phase (a->trust) == TRUST_RENEW &&
         auth_truster_trusts (a, c->node) &&
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
    return is_good (c, wall_ms) && !auth_truster_trusts (a, c->node);
  case TRUST_RENEW:
    return auth_certificate_returns (c, wall_ms) &&
           !auth_truster_renewed (a, c->node);
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

/* Has the node a certificate of this CA? */
static bool
has_one_of (const struct auth *a, const char *node, const char *ca)
{
  const struct certificate *c;

  TAILQ_FOREACH (c, &a->certificates, link)
    if (c->revoked == 0 && strcmp (c->ca, ca) == 0 &&
        strcmp (c->node, node) == 0)
      return true;
  return false;
}

/* Those on the CRL stay there: a node may not have heard yet that their CA is
 * no longer valid.  A node keeps its last one, which opens nothing any more: by
 * that a database which is older than the CA knows the node, and takes in the
 * certificates that it got since (auth_adopt).
 */
void
auth_trust_drop_old (struct auth *a, struct store_txn *t)
{
  const char *one = ca_fingerprint (trust_ca (a->trust));
  struct certificate *c, *next;

  TAILQ_FOREACH_SAFE (c, &a->certificates, link, next)
    if (c->revoked == 0 && strcmp (c->ca, one) != 0 &&
        has_one_of (a, c->node, one))
      auth_store_drop_certificate (a, t, c);
}

/* ---- The state, as JSON. ---- */

static json_t *
view_one (const struct ca *ca)
{
  char subject[CA_SUBJECT_BYTES];
  uint64_t since, until;

  if (ca == NULL)
    return json_null ();
  ca_subject (ca, subject);
  ca_times (ca, &since, &until);
  return fields_object ((const struct field_value[]) {
    { "fingerprint", text_string (ca_fingerprint (ca)) },
    { "subject", text_string (subject) },
    { "since", text_time (since) },
    { "until", text_time (until) },
    { "bound", json_boolean (ca_is_constrained (ca)) },
    { NULL } });
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
      view = fields_object ((const struct field_value[]) {
        { "node", text_string (c->node) },
        { "trusts", json_boolean (auth_truster_trusts (a, c->node)) },
        { "renewed", json_boolean (auth_truster_renewed (a, c->node)) },
        { "waited_for", json_boolean (0) },
        { NULL } });
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
  return fields_object ((const struct field_value[]) {
    { "rotation", text_string (trust_phase_word (trust_phase (a->trust))) },
    { "rotation_since", text_time (trust_since (a->trust)) },
    { "ca", view_one (trust_ca (a->trust)) },
    { "next", view_one (trust_next (a->trust)) },
    { "nodes", view_nodes_of (a, wall_ms) },
    { NULL } });
}
