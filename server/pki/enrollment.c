/* enrollment.c: see enrollment.h. */

#include <config.h>

#include <string.h>

#include "enrollment.h"
#include "server/addresses.h"

#define OUTSIDE                                                                \
  "the address %s is in no network of the cluster's CA (private ones and "     \
  "those of weftd's host, or what weftd --ca-network said), and nobody would " \
  "believe a certificate for it: start weftd with --ca-network for each "      \
  "network of the cluster, then run weftctl ca rotate, and weftctl ca retire " \
  "when the nodes have followed"

static bool
is_own (const struct enrollment *e, const char *address)
{
  return ca_names_have_address (e->own, address);
}

/* Is it one of weftd's host, by which nodes would take who has it for weftd? */
static bool
is_weftds (const struct enrollment *e, const char *address)
{
  return addresses_is_loopback (address) || is_own (e, address);
}

/* Was it given this address: by name, or by calling from there?  On weftd's own host it
 * may call from any.
 */
static bool
is_given (const struct enrollment *e, const struct enrollment_ask *ask,
          const char *address)
{
  json_t *list = addresses_list (ask->given), *v;
  bool given = false, here = is_weftds (e, ask->from);
  size_t i;

  json_array_foreach (list, i, v)
    given |= strcmp (json_string_value (v), address) == 0;
  json_decref (list);
  return given || (ask->given[0] == '\0' && (strcmp (ask->from, address) == 0 ||
                                             (here && is_weftds (e, address))));
}

/* Is the address one that this node may be certified for at all? */
static bool
is_right (const struct enrollment *e, const struct enrollment_ask *ask,
          const char *address, struct refusal *p)
{
  bool of_a_host = addresses_is_of_a_host (address);

  if (!of_a_host ||
      (addresses_is_loopback (address) && !addresses_is_loopback (ask->from)))
    return text_refuse (p, 422, "csr", "csr",
                        "field csr: the address %s %s: give one at which other "
                        "hosts reach this one",
                        address, of_a_host ? "is loopback" : "is of no host");
  if (!is_given (e, ask, address))
    return text_refuse (
      p, 403, "csr", "address-not-given",
      "the address %s is not the one %s: an administrator gives it by "
      "weftctl node token %s --address %s",
      address, ask->given[0] ? "that the token is for" : "this host calls from",
      ask->node, address);
  return trust_permits (e->trust, address) ||
         text_refuse (p, 422, "csr", "csr", "field csr: " OUTSIDE, address);
}

static bool
is_free (const struct enrollment *e, const struct enrollment_ask *ask,
         const char *address, struct refusal *p)
{
  const char *other = certificates_node_at (e->certificates, address,
                                            ask->node);

  if (other)
    return text_refuse (
      p, 409, "csr", "address-in-use",
      "the address %s is node %s's: give another, or remove that node first",
      address, other);
  return !is_own (e, address) || addresses_is_loopback (ask->from) ||
         strcmp (ask->from, address) == 0 ||
         text_refuse (p, 409, "csr", "address-in-use",
                      "the address %s is weftd's: a node on its host must "
                      "enroll from there",
                      address);
}

bool
enrollment_permits (const struct enrollment *e,
                    const struct enrollment_ask *ask, struct refusal *p)
{
  const struct ca_names *names = ask->names;

  if (names->process[0])
    return text_refuse (
      p, 422, "csr", "csr",
      "field csr: it asks for a certificate of one process: enroll the node "
      "first, and ask for that by the node's certificate");
  for (unsigned i = 0; i < names->dns_count; i++)
    if (strcmp (names->dns[i], ask->node) != 0)
      return text_refuse (
        p, 422, "csr", "csr",
        "field csr: the only DNS name in it may be the node's");
  for (unsigned i = 0; i < names->address_count; i++)
    if (!is_right (e, ask, names->address[i], p))
      return false;
  if (strcmp (ask->node, "localhost") == 0)
    return text_refuse (p, 422, "node", NULL,
                        "field node: localhost names every host; give another "
                        "name");
  /* Only on weftd's own host may a node be called as that is. */
  for (unsigned i = 0; i < e->own->dns_count; i++)
    if (strcmp (e->own->dns[i], ask->node) == 0 && !is_weftds (e, ask->from))
      return text_refuse (
        p, 409, "node", "address-in-use",
        "%s is the name of weftd's host: a node on it must enroll "
        "from there; give another name",
        ask->node);
  for (unsigned i = 0; i < names->address_count; i++)
    if (!is_free (e, ask, names->address[i], p))
      return false;
  return true;
}

/* Has a node, which is on weftd's host, one such address already? */
static bool
is_with_weftd (const struct enrollment *e, const json_t *present)
{
  bool with = false;
  json_t *v;
  size_t i;

  json_array_foreach (present, i, v)
    with |= is_weftds (e, json_string_value (v));
  return with;
}

bool
enrollment_permits_addresses (const struct enrollment *e, const char *node,
                              const json_t *present, const json_t *list,
                              struct refusal *p)
{
  json_t *v;
  size_t i;

  json_array_foreach (list, i, v) {
    const char *address = json_string_value (v);
    const char *other = certificates_node_at (e->certificates, address, node);

    if (!trust_permits (e->trust, address))
      return text_refuse (p, 422, "addresses", NULL,
                          "field addresses: " OUTSIDE, address);
    if (other)
      return text_refuse (p, 409, "addresses", "address-in-use",
                          "the address %s is node %s's: give another, or "
                          "remove that node first",
                          address, other);
    if (is_weftds (e, address) && !is_with_weftd (e, present))
      return text_refuse (p, 409, "addresses", "address-in-use",
                          "the address %s is weftd's: a node on its host must "
                          "enroll from there",
                          address);
  }
  return true;
}
