/* auth-restored.c: certificates that nodes got after weftd's database was made, which is an
 * old one: restored from a backup, or put back.
 *
 * Nodes renew their certificates often, so the newest of many are not in a backup that is
 * a day old.  Each was signed by the cluster's CA (TLS has verified that), and names its
 * node: it is taken in as if it were in the backup, until an administrator has confirmed
 * what is revoked.  A node that is not in the backup, or is revoked there, enrolls again.
 */

#include <config.h>

#include <string.h>

#include "alloc.h"
#include "auth-internal.h"
#include "log.h"
#include "pki/trust.h"

bool
auth_adopt (struct auth *a, struct store_txn *t, const struct caller *caller)
{
  const struct auth_credentials given = { .node = caller->name,
                                          .serial = caller->serial,
                                          .until = caller->until,
                                          .process = caller->process };
  const struct ca *ca = trust_ca (a->trust), *next = trust_next (a->trust);
  char subject[CA_SUBJECT_BYTES];
  struct certificate *c;

  /* Several requests may have come at once. */
  if (!auth_is_later (a, &given))
    return false;
  if (next) {
    ca_subject (next, subject);
    if (strcmp (subject, caller->issuer) == 0)
      ca = next;
  }
  c = alloc_zeroed (sizeof *c);
  snprintf (c->serial, sizeof c->serial, "%s", caller->serial);
  snprintf (c->node, sizeof c->node, "%s", caller->name);
  snprintf (c->ca, sizeof c->ca, "%s", ca_fingerprint (ca));
  snprintf (c->process, sizeof c->process, "%s", caller->process);
  c->created = caller->until - a->certificate_seconds * 1000;
  c->expires = caller->until;
  c->addresses = json_deep_copy (
    certificates_of_node (&a->certificates, caller->name)->addresses);
  auth_store_put_certificate (a, t, c);
  log_line (
    CLUSTER_WARNING,
    "node %s has a certificate that it got after this database was made: "
    "it is taken in; if the node was shut out since, shut it out "
    "again: weftctl node revoke %s",
    caller->name, caller->name);
  return true;
}
