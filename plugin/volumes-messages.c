/* volumes-messages.c: see volumes-messages.h. */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "format/format.h"
#include "volumes-messages.h"

/* ---- Messages from weftd ---- */

bool
volumes_messages_runs (const json_t *json, struct volume_run **runs,
                       unsigned *count)
{
  const json_t *one;
  size_t i;

  *count = 0;
  *runs = calloc (json_array_size (json) + 1, sizeof **runs);
  json_array_foreach (json, i, one) {
    json_int_t first = json_integer_value (json_array_get (one, 0));
    json_int_t n = json_integer_value (json_array_get (one, 1));

    if (*runs == NULL || first < 0 || first > UINT32_MAX || n <= 0 ||
        n > UINT32_MAX)
      return false;
    (*runs)[(*count)++] = (struct volume_run) { (uint32_t) first,
                                                (uint32_t) n };
  }
  return *runs != NULL;
}

bool
volumes_messages_volume (const json_t *json, const struct pool_header *pool,
                         struct volumes_messages_volume *d)
{
  const char *name = json_string_value (json_object_get (json, "name"));
  const char *uuid = json_string_value (json_object_get (json, "uuid"));
  json_int_t root = json_integer_value (json_object_get (json, "root"));

  if (name == NULL || !name_valid (name) || uuid == NULL ||
      format_uuid_parse (uuid, d->uuid) == -1 || root < 0 ||
      root >= pool->roots)
    return false;
  strcpy (d->name, name);
  d->root = (uint32_t) root;
  d->size = (uint64_t) json_integer_value (json_object_get (json, "size"));
  d->new = json_is_true (json_object_get (json, "new"));
  return true;
}

bool
volumes_messages_order (const json_t *json, const struct pool_header *pool,
                        struct holder_order *o)
{
  const char *what = json_string_value (json_object_get (json, "do"));
  struct volumes_messages_volume d;

  if (what == NULL ||
      (strcmp (what, "resize") != 0 && strcmp (what, "delete") != 0) ||
      !volumes_messages_volume (json_object_get (json, "volume"), pool, &d))
    return false;
  *o = (struct holder_order) {
    .number = (uint64_t) json_integer_value (json_object_get (json, "order")),
    .what = what[0] == 'r' ? HOLDER_DO_RESIZE : HOLDER_DO_DELETE,
    .size = (uint64_t) json_integer_value (json_object_get (json, "size")),
    .root = d.root,
  };
  memcpy (o->uuid, d.uuid, 16);
  strcpy (o->name, d.name);
  return true;
}

const char *
volumes_messages_uuid (const json_t *json, uint8_t uuid[16])
{
  const char *text = json_string_value (json_object_get (json, "uuid"));

  if (text == NULL || format_uuid_parse (text, uuid) == -1)
    return "its UUID is missing";
  return NULL;
}

const char *
volumes_messages_pool (const json_t *json, uint64_t array_bytes,
                       struct pool_header *pool, bool *formatted)
{
  json_int_t bytes = json_integer_value (
    json_object_get (json, "segment_bytes"));
  const char *why;

  if (pool_plan (array_bytes, (uint64_t) bytes, pool, &why) == -1)
    return why;
  why = volumes_messages_uuid (json, pool->array);
  if (why)
    return why;
  if (pool->segments !=
        json_integer_value (json_object_get (json, "segments")) ||
      pool->roots != json_integer_value (json_object_get (json, "roots")))
    return "weftd counts other segments than this nbdkit";
  *formatted = json_is_true (json_object_get (json, "formatted"));
  return NULL;
}

/* ---- Messages to weftd ---- */

static json_t *
runs_json (const struct volume_run *runs, unsigned count)
{
  json_t *list = json_array ();

  for (unsigned i = 0; i < count; i++)
    json_array_append_new (list,
                           json_pack ("[I, I]", (json_int_t) runs[i].first,
                                      (json_int_t) runs[i].count));
  return list;
}

static json_t *
entry_json (const struct holder_entry *e)
{
  char uuid[FORMAT_UUID_TEXT_BYTES];
  json_t *json;

  format_uuid (e->uuid, uuid);
  json = json_pack ("{s:s}", "volume", uuid);
  if (e->want > 0) {
    json_object_set_new (json, "want", json_integer (e->want));
    json_object_set_new (json, "log", json_integer (e->log));
    json_object_set_new (json, "near", json_integer (e->near));
  }
  if (e->gives > 0)
    json_object_set_new (json, "give", runs_json (e->give, e->gives));
  if (e->says)
    json_object_set_new (
      json, "said",
      json_pack ("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s?}", "made",
                 (int) e->said.made, "size", (json_int_t) e->said.size,
                 "mapped", (json_int_t) e->said.mapped, "log",
                 (json_int_t) e->said.log, "spare", (json_int_t) e->said.spare,
                 "clients", (json_int_t) e->said.clients, "waiting",
                 (json_int_t) e->said.waiting, "why", e->said.why));
  return json;
}

json_t *
volumes_messages (const char *instance, const struct holder_message *m)
{
  json_t *body = json_pack ("{s:s, s:I}", "instance", instance, "number",
                            (json_int_t) m->number);
  json_t *volumes = json_array (), *done = json_array ();

  if (m->formatted)
    json_object_set_new (body, "formatted", json_true ());
  for (unsigned i = 0; i < m->entries; i++)
    json_array_append_new (volumes, entry_json (&m->entry[i]));
  for (unsigned i = 0; i < m->dones; i++) {
    json_t *one = json_pack ("{s:I}", "order", (json_int_t) m->done[i].number);

    if (m->done[i].error[0])
      json_object_set_new (one, "error", json_string (m->done[i].error));
    json_array_append_new (done, one);
  }
  json_object_set_new (body, "volumes", volumes);
  json_object_set_new (body, "done", done);
  return body;
}

/* ---- A scan ---- */

static json_t *
found_json (const struct volumes_messages_found *f,
            const struct volume_run *runs, unsigned count)
{
  json_t *json = json_pack ("{s:I, s:o}", "root", (json_int_t) f->root, "runs",
                            runs_json (runs, count));
  char uuid[FORMAT_UUID_TEXT_BYTES];

  if (f->uuid) {
    format_uuid (f->uuid, uuid);
    json_object_set_new (json, "uuid", json_string (uuid));
    json_object_set_new (json, "name", json_string (f->name));
    json_object_set_new (json, "size", json_integer ((json_int_t) f->size));
    json_object_set_new (json, "kept", json_integer ((json_int_t) f->kept));
  }
  if (f->why)
    json_object_set_new (json, "why", json_string (f->why));
  return json;
}

json_t *
volumes_messages_scan (const char *instance, unsigned flags,
                       uint64_t segment_bytes,
                       const struct volumes_messages_found *found,
                       const struct volume_run *runs, unsigned count)
{
  json_t *body = json_pack ("{s:s}", "instance", instance);

  if (flags & VOLUMES_MESSAGES_BEGIN)
    json_object_set_new (body, "begin", json_true ());
  if (flags & VOLUMES_MESSAGES_END)
    json_object_set_new (body, "end", json_true ());
  if (segment_bytes > 0)
    json_object_set_new (body, "segment_bytes",
                         json_integer ((json_int_t) segment_bytes));
  if (found)
    json_object_set_new (body, "volumes",
                         json_pack ("[o]", found_json (found, runs, count)));
  return body;
}

/* weftd that was just started, or that doubts a member, answers later. */
enum volumes_messages_next
volumes_messages_scanned (int status, const char *code, const json_t *reply,
                          bool *over)
{
  const json_t *pool = json_object_get (reply, "pool"), *scan;

  if (status == 200) {
    scan = json_object_get (pool, "scan");
    if (!json_is_null (pool) && !json_is_boolean (scan))
      return VOLUMES_MESSAGES_REFUSED;
    *over = !json_is_true (scan);
    return VOLUMES_MESSAGES_NEXT;
  }
  if (status < 400 || status >= 500 || status == 429 ||
      (status == 409 && strcmp (code, "doubted") == 0))
    return VOLUMES_MESSAGES_AGAIN;
  if (status == 409 && strcmp (code, "scan") == 0)
    return VOLUMES_MESSAGES_ANEW;
  return VOLUMES_MESSAGES_REFUSED;
}
