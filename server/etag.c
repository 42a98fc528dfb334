/* etag.c: see etag.h. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "allow.h"
#include "etag.h"
#include "fields.h"
#include "routes.h"
#include "text.h"
#include "views.h"

#define ETAG_BYTES 40

json_t *
etag_array (struct loop *l, const struct request *r)
{
  const struct cluster *c = loop_cluster (l);
  const struct cluster_array *a = cluster_array_find (c, r->name);
  json_t *members;

  if (a == NULL)
    return NULL;
  members = json_array ();
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_member *member = &a->rec.member[m];

    json_array_append_new (
      members, fields_object ((const struct field_value[]) {
                 { "disk", text_uuid (member->disk) },
                 { "next_disk", text_uuid_or_null (member->next_disk) },
                 { "held", json_boolean (member->held) },
                 { "paused", json_boolean (member->paused) },
                 { "floor", text_number (member->floor) },
                 { "ceiling", text_number (member->ceiling) },
                 { NULL } }));
  }
  return fields_object ((const struct field_value[]) {
    { "uuid", text_uuid (a->rec.uuid) },
    { "spare_after_ms", text_number (a->rec.spare_after_ms) },
    { "slow_out_ms", text_number (a->rec.slow_out_ms) },
    { "members", members },
    { "spares", view_spares (c, a) },
    { "service",
      fields_names_json (a->rec.service_node, a->rec.service_nodes) },
    { "allow", allow_json (&a->rec.allow) },
    { NULL } });
}

json_t *
etag_volume (struct loop *l, const struct request *r)
{
  const struct cluster_array *a = cluster_array_find (loop_cluster (l),
                                                      r->name);
  const struct cluster_volume *v = a ? cluster_volume_find (a, r->volume)
                                     : NULL;

  if (v == NULL)
    return NULL;
  return fields_object ((const struct field_value[]) {
    { "uuid", text_uuid (v->rec.uuid) },
    { "size", text_number (v->rec.size) },
    { "deleting", json_boolean (v->rec.state == CLUSTER_VOLUME_DELETING) },
    { NULL } });
}

/* A node may have no settings yet. */
json_t *
etag_node (struct loop *l, const struct request *r)
{
  const struct cluster *c = loop_cluster (l);
  const struct cluster_node *n = cluster_node_find (c, r->name);

  if (!cluster_node_known (c, r->name))
    return NULL;
  return json_pack ("{ss sb sb}", "name", r->name, "maintenance",
                    n && n->rec.maintenance, "draining", n && n->rec.draining);
}

json_t *
etag_disk (struct loop *l, const struct request *r)
{
  const struct cluster *c = loop_cluster (l);
  const struct cluster_disk *d = cluster_disk_find (c, r->uuid);

  if (d == NULL)
    return NULL;
  return fields_object ((const struct field_value[]) {
    { "uuid", text_uuid (d->rec.uuid) },
    { "moves_to", text_string (d->rec.moves_to) },
    { "release", text_uuid_or_null (d->rec.release) },
    { "spare_of", text_uuid_or_null (d->rec.spare_of) },
    { "array", d->array ? text_uuid (d->array->rec.uuid) : json_null () },
    { "position", json_integer (d->position) },
    { NULL } });
}

/* "": the thing does not exist. */
static void
make (struct loop *l, const struct request *r, char etag[ETAG_BYTES])
{
  json_t *configuration = r->route->configuration (l, r);
  uint8_t digest[SHA256_DIGEST_LENGTH];
  char *text;

  etag[0] = '\0';
  if (configuration == NULL)
    return;
  text = json_dumps (configuration, JSON_COMPACT | JSON_SORT_KEYS);
  json_decref (configuration);
  if (text == NULL)
    abort ();
  SHA256 ((const uint8_t *) text, strlen (text), digest);
  free (text);
  text_hex_print (digest, 8, strcpy (etag, "\"") + 1);
  strcat (etag, "\"");
}

bool
etag_differs (struct loop *l, const struct request *r)
{
  char etag[ETAG_BYTES];
  const char *p = r->query.if_match;
  size_t n;

  if (p[0] == '\0' || r->route->configuration == NULL)
    return false;
  make (l, r, etag);
  if (etag[0] == '\0')
    return false;
  /* A list, each of which may do; '*' stands for whatever there is. */
  while (*(p += strspn (p, ", \t"))) {
    n = strcspn (p, ", \t");
    if ((n == 1 && *p == '*') ||
        (n == strlen (etag) && strncmp (p, etag, n) == 0))
      return false;
    p += n;
  }
  return true;
}

void
etag_add (struct loop *l, struct request *r, int status)
{
  char etag[ETAG_BYTES];
  size_t n = strlen (r->headers);

  if (status >= 400 || r->route->configuration == NULL)
    return;
  make (l, r, etag);
  if (etag[0])
    snprintf (r->headers + n, sizeof r->headers - n, "ETag: %s\r\n", etag);
}
