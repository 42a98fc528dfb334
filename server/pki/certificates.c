/* certificates.c: see certificates.h. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "certificates.h"
#include "server/alloc.h"

struct certificate *
certificates_find (const struct certificates *list, const char *node,
                   const char *serial)
{
  struct certificate *c;

  TAILQ_FOREACH (c, list, link)
    if (strcmp (c->serial, serial) == 0)
      return c->revoked == 0 && strcmp (c->node, node) == 0 ? c : NULL;
  return NULL;
}

const struct certificate *
certificates_of_node (const struct certificates *list, const char *node)
{
  const struct certificate *c;

  TAILQ_FOREACH (c, list, link)
    if (c->revoked == 0 && strcmp (c->node, node) == 0)
      return c;
  return NULL;
}

unsigned
certificates_count (const struct certificates *list, const char *node,
                    const char *process, uint64_t wall_ms)
{
  const struct certificate *c;
  unsigned count = 0;

  TAILQ_FOREACH (c, list, link)
    count += c->revoked == 0 && c->expires > wall_ms &&
             strcmp (c->node, node) == 0 &&
             (process == NULL || strcmp (c->process, process) == 0);
  return count;
}

const char *
certificates_node_at (const struct certificates *list, const char *address,
                      const char *but)
{
  const struct certificate *c;

  TAILQ_FOREACH (c, list, link)
    for (size_t i = 0; i < json_array_size (c->addresses); i++)
      if (c->revoked == 0 && strcmp (c->node, but) != 0 &&
          strcmp (json_string_value (json_array_get (c->addresses, i)),
                  address) == 0)
        return c->node;
  return NULL;
}

struct certificate *
certificate_sign (const struct ca *ca, EVP_PKEY *key, const char *node,
                  const char *process, json_t *addresses, uint64_t seconds,
                  char **pem)
{
  struct certificate *c = alloc_zeroed (sizeof *c);
  struct ca_names names = { .dns_count = 1 };
  struct ca_certificate made;
  json_t *v;
  size_t i;

  strcpy (names.dns[0], node);
  strcpy (names.process, process);
  json_array_foreach (addresses, i, v)
    if (i < CA_NAMES_MAX)
      snprintf (names.address[names.address_count++], sizeof names.address[0],
                "%s", json_string_value (v));
  ca_sign (ca, key, node, &names, true, seconds, &made);
  strcpy (c->serial, made.serial);
  strcpy (c->node, node);
  strcpy (c->process, process);
  strcpy (c->ca, ca_fingerprint (ca));
  c->created = made.created;
  c->expires = made.expires;
  c->addresses = addresses;
  *pem = ca_print (made.x509);
  X509_free (made.x509);
  return c;
}
