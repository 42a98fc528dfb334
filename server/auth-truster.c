/* auth-truster.c: the CAs that each node trusts, by its own report.
 *
 * A node reports which CAs are in its folder, by a certificate that it has: a record of
 * kind "trust" (key: its name).  So the record says what is on the node's disk, and which
 * certificate the node really shows, even if answers were lost.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "auth-internal.h"
#include "base/name.h"

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
auth_truster_load (struct auth *a, const char *key, json_t *object)
{
  const char *tag, *ca;

  if (!name_valid (key) ||
      json_unpack (object, "{ss ss}", "trusts", &tag, "ca", &ca) == -1)
    return false;
  put (a, key, tag, ca);
  return true;
}

void
auth_truster_said (struct auth *a, struct store_txn *t, const char *node,
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
auth_truster_forget (struct auth *a, struct store_txn *t, const char *node)
{
  struct truster *r = find (a, node);

  if (r == NULL)
    return;
  store_txn_put (t, "trust", node, NULL);
  TAILQ_REMOVE (&a->trusters, r, link);
  free (r);
}

bool
auth_truster_trusts (const struct auth *a, const char *node)
{
  const struct truster *r = find (a, node);

  return r && strcmp (r->tag, trust_tag (a->trust)) == 0;
}

bool
auth_truster_renewed (const struct auth *a, const char *node)
{
  const struct truster *r = find (a, node);
  const struct ca *next = trust_next (a->trust);

  return r && strcmp (r->ca,
                      ca_fingerprint (next ? next : trust_ca (a->trust))) == 0;
}

bool
auth_truster_has (const struct auth *a, const char *ca)
{
  const struct ca *next = trust_next (a->trust);

  return strcmp (ca, ca_fingerprint (trust_ca (a->trust))) == 0 ||
         (next && strcmp (ca, ca_fingerprint (next)) == 0);
}
