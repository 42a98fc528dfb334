/* routes-leases.c: calls of sessions that share an array by leases, and the map
 * of leases: see routes.h.  A range is [offset, length].
 */

#include <config.h>

#include <endian.h>
#include <stdlib.h>

#include "alloc.h"
#include "routes-internal.h"

/* Neighbouring leases of two hosts may be many leases here for a while. */
#define RANGES_MAX (ARRAY_LEASES_MAX + SESSION_LEASES_MAX)

static bool
take_range (const json_t *v, struct cluster_part *part)
{
  return json_is_array (v) && json_array_size (v) == 2 &&
         fields_whole (json_array_get (v, 0), &part->offset) &&
         fields_whole (json_array_get (v, 1), &part->length) &&
         part->offset <= INT64_MAX / 2 && part->length > 0 &&
         part->length <= INT64_MAX / 2;
}

/* False: there is no such field. */
static bool
parse_ranges (struct fields *f, const char *name, struct cluster_part **list,
              unsigned *count)
{
  const json_t *ranges;
  size_t n;

  if (!fields_has (f, name))
    return false;
  ranges = fields_get (f, name);
  n = json_array_size (ranges);
  if (!json_is_array (ranges) || n > RANGES_MAX) {
    fields_fail (f, name, "field %s must be a list of at most %d ranges", name,
                 RANGES_MAX);
    return false;
  }
  *list = alloc_list (NULL, n + 1, sizeof **list);
  for (size_t i = 0; i < n; i++)
    if (!take_range (json_array_get (ranges, i), &(*list)[i])) {
      fields_fail (f, name, "element %zu of field %s must be [offset, length]",
                   i, name);
      return false;
    }
  *count = (unsigned) n;
  return true;
}

static void
parse_asks (struct fields *f, struct cluster_lease_message *w)
{
  const json_t *list, *one;

  if (!fields_has (f, "ask"))
    return;
  list = fields_get (f, "ask");
  if (!json_is_array (list) || json_array_size (list) > LEASE_ASKS_MAX) {
    fields_fail (f, "ask", "field ask must be a list of at most %d",
                 LEASE_ASKS_MAX);
    return;
  }
  w->asks = (unsigned) json_array_size (list);
  for (unsigned i = 0; i < w->asks; i++) {
    one = json_array_get (list, i);
    if (!take_range (json_object_get (one, "must"), &w->ask[i].must) ||
        !take_range (json_object_get (one, "wish"), &w->ask[i].wish))
      fields_fail (f, "ask",
                   "element %u of field ask must have must and wish, each "
                   "[offset, length]",
                   i);
  }
}

/* Hosts and weftd need not be of the same version, so there is no fields_end. */
static void
parse_leases (struct fields *f, struct request *r)
{
  struct cluster_lease_message *w = r->input;
  uint64_t ended = 0;

  route_disk_parse_instance (f, w->instance);
  if (fields_has (f, "ended"))
    fields_hex (f, "ended", (uint8_t *) &ended, sizeof ended);
  w->ended = be64toh (ended);
  if (fields_has (f, "number"))
    fields_u64 (f, "number", 0, INT64_MAX, &w->number);
  parse_ranges (f, "give", &w->given, &w->given_count);
  w->declare = parse_ranges (f, "declare", &w->declared, &w->declared_count);
  if (fields_has (f, "recovered"))
    fields_u64 (f, "recovered", 0, INT64_MAX, &w->recovered);
  parse_asks (f, w);
  if (fields_has (f, "wait_ms"))
    fields_u64 (f, "wait_ms", 0, 60000, &w->wait_ms);
}

static void
forget_leases (void *input)
{
  struct cluster_lease_message *w = input;

  free (w->given);
  free (w->declared);
}

/* The call may wait for its leases, and be answered at any time from then on.  The engine
 * has taken the ranges before, so they are freed here.
 */
static void
handle_leases (struct loop *l, struct request *r)
{
  struct cluster_lease_message *w = r->input, message = *w;

  w->given = w->declared = NULL;
  cluster_session_leases (loop_cluster (l), loop_input (l, r), r->id, &message);
  forget_leases (&message);
}

static json_t *
reply_leases (struct loop *l, struct request *r, const struct cluster_output *o,
              struct store_txn *t, int *status)
{
  json_t *granted = json_array ();

  for (unsigned i = 0; i < o->granted_count; i++)
    json_array_append_new (granted, view_range (&o->granted[i]));
  return json_pack ("{so}", "granted", granted);
}

static void
handle_map (struct loop *l, struct request *r)
{
  const struct cluster_array *a = route_array_of_path (l, r);

  if (a)
    loop_answer (l, r, 200, view_leases (loop_cluster (l), a));
}

const struct route routes_leases[] = {
  { "POST", V1 "/sessions/{id}/leases", .who = WHO_NODE, .process = "array",
    .large = true, .input = sizeof (struct cluster_lease_message),
    .parse = parse_leases, .forget = forget_leases, .handle = handle_leases,
    .reply = reply_leases },
  { "GET", V1 "/arrays/{name}/leases", .handle = handle_map },
  { NULL },
};
