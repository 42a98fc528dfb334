/* map.c: reading an array's map out of JSON (map.h shows it).
 *
 * weftd's reply and a file written by hand go through the same checks.  A file
 * must have only known fields, because an unknown one there is a typing error.
 * Every message names the field as in jq: members[2].uri.
 */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"

#define URI_BYTES_MAX 4096

struct why {
  char *text;
  size_t size;
};

__attribute__ ((format (printf, 2, 3))) static bool
bad (const struct why *why, const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  vsnprintf (why->text, why->size, fmt, args);
  va_end (args);
  return false;
}

/* An optional integer: *r stays as it is when the field is absent. */
static bool
get_integer (const json_t *json, const char *field, uint64_t min, uint64_t max,
             uint64_t *r, const struct why *why)
{
  const json_t *v = json_object_get (json, field);
  json_int_t i;

  if (v == NULL || json_is_null (v))
    return true;
  if (!json_is_integer (v))
    return bad (why, "%s: not an integer; give a plain number without quotes",
                field);
  i = json_integer_value (v);
  if (i < 0 || (uint64_t) i < min || (uint64_t) i > max)
    return bad (why,
                "%s: %lld is out of range; give a number from %llu to "
                "%llu",
                field, (long long) i, (unsigned long long) min,
                (unsigned long long) max);
  *r = (uint64_t) i;
  return true;
}

/* An optional string, copied.  `where` is the field's full name. */
static bool
get_string (const json_t *json, const char *field, const char *where,
            size_t max, char **r, const struct why *why)
{
  const json_t *v = json_object_get (json, field);

  if (v == NULL || json_is_null (v))
    return true;
  if (!json_is_string (v))
    return bad (why, "%s: not a string", where);
  if (json_string_length (v) == 0 || json_string_length (v) > max ||
      strlen (json_string_value (v)) != json_string_length (v))
    return bad (why, "%s: give 1 to %zu characters", where, max);
  *r = strdup (json_string_value (v));
  return *r ? true : bad (why, "out of memory");
}

static bool
get_tokens (struct map_member *mm, const json_t *json, unsigned i,
            const struct why *why)
{
  const json_t *tokens = json_object_get (json, "tokens");
  static const char *const doors[] = { "data", "batch", "intents" };
  static const char token_characters[] =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-";
  char **to[] = { &mm->token_data, &mm->token_batch, &mm->token_intents };
  char where[48];
  unsigned d;

  if (tokens == NULL || json_is_null (tokens))
    return true;
  if (!json_is_object (tokens))
    return bad (why, "members[%u].tokens: not an object", i);
  for (d = 0; d < 3; d++) {
    snprintf (where, sizeof where, "members[%u].tokens.%s", i, doors[d]);
    if (!get_string (tokens, doors[d], where, TOKEN_BYTES_MAX, to[d], why))
      return false;
    /* It becomes part of a URI, so hold it to what core/format/token.h says. */
    if (*to[d] && (*to[d])[strspn (*to[d], token_characters)])
      return bad (why, "%s: not a token of weftd", where);
  }
  if (mm->token_data == NULL)
    return bad (why, "members[%u].tokens.data: missing", i);
  return true;
}

static bool
get_member (struct map *m, const json_t *json, unsigned i,
            const struct why *why)
{
  struct map_member *mm = &m->member[i];
  const json_t *v;
  char where[48];
  unsigned j;
  int state;

  if (!json_is_object (json))
    return bad (why, "members[%u]: not an object", i);
  snprintf (where, sizeof where, "members[%u].uri", i);
  if (!get_string (json, "uri", where, URI_BYTES_MAX, &mm->uri, why))
    return false;
  if (mm->uri == NULL)
    return bad (why, "%s: missing; give the NBD URI of the member", where);
  if (strstr (mm->uri, "://") == NULL)
    return bad (why,
                "%s: \"%s\" is no NBD URI; write it like "
                "nbd://host:10809/export",
                where, mm->uri);
  snprintf (where, sizeof where, "members[%u].name", i);
  if (!get_string (json, "name", where, NAME_BYTES_MAX, &mm->name, why))
    return false;
  if (mm->name == NULL && asprintf (&mm->name, "m%u", i) == -1) {
    mm->name = NULL;
    return bad (why, "out of memory");
  }
  for (j = 0; j < i; j++)
    if (strcmp (m->member[j].uri, mm->uri) == 0)
      return bad (why,
                  "members[%u].uri: %s is members[%u] already; a member "
                  "can be used once only",
                  i, mm->uri, j);
    else if (strcmp (m->member[j].name, mm->name) == 0)
      return bad (why,
                  "members[%u].name: \"%s\" is the name of members[%u] "
                  "already",
                  i, mm->name, j);
  v = json_object_get (json, "state");
  if (v != NULL && !json_is_null (v)) {
    state = json_is_string (v) ? member_state_parse (json_string_value (v))
                               : -1;
    if (state == -1)
      return bad (why,
                  "members[%u].state: unknown state; the states are "
                  "in-sync, out, joining and spare",
                  i);
    mm->state = state;
  }
  if (!get_integer (json, "fence", 0, INT64_MAX, &mm->fence, why) ||
      !get_integer (json, "round", 0, EPOCH_MAX, &mm->round, why))
    return false;
  mm->lapse = mm->fence; /* an older weftd says neither of these */
  mm->life = mm->fence;
  if (!get_integer (json, "lapse", 0, INT64_MAX, &mm->lapse, why) ||
      !get_integer (json, "life", 0, INT64_MAX, &mm->life, why))
    return false;
  mm->life_round = mm->round; /* nor this */
  if (!get_integer (json, "life_round", 0, EPOCH_MAX, &mm->life_round, why))
    return false;
  mm->known = json_is_true (json_object_get (json, "known"));
  mm->reach = mm->round;
  if (mm->known && m->round > mm->reach)
    mm->reach = m->round;
  return get_tokens (mm, json, i, why);
}

/* An optional word, which `parse` knows; *r stays as it is when the field is
 * absent.  `noun` and `words` are for people: the kind of word, and the valid
 * ones.
 */
static bool
get_word (const json_t *json, const char *field, int (*parse) (const char *),
          int *r, const char *noun, const char *words, const struct why *why)
{
  char *text = NULL;

  if (!get_string (json, field, field, NAME_BYTES_MAX, &text, why))
    return false;
  if (text == NULL)
    return true;
  *r = parse (text);
  if (*r == -1)
    bad (why, "%s: unknown %s \"%s\"; give %s", field, noun, text, words);
  free (text);
  return *r != -1;
}

/* n, groups and the number of members must agree; the layout itself checks its
 * own rules, with members as large as possible.
 */
static bool
check_shape (struct map *m, uint64_t n, const struct why *why)
{
  struct layout l;

  if (m->members % m->groups != 0)
    return bad (why,
                "groups: %u members can't be split into %u groups of the "
                "same size",
                m->members, m->groups);
  m->n = m->members / m->groups;
  if (n != 0 && n != m->n)
    return bad (why,
                "n: %llu members in each of %u groups are %llu members, "
                "but the map has %u",
                (unsigned long long) n, m->groups,
                (unsigned long long) n * m->groups, m->members);
  return layout_init (&l, m->layout, m->n, m->groups, m->unit,
                      m->member_bytes ? m->member_bytes : MEMBER_DATA_BYTES_MAX,
                      why->text, why->size) == 0;
}

static bool
get_map (struct map *m, const json_t *json, const struct why *why)
{
  const json_t *members = json_object_get (json, "members");
  int layout = -1, dup = DUP_ASYNC_CLIENT;
  uint64_t n = 0, groups = 1;
  unsigned i;

  if (!json_is_object (json))
    return bad (why, "the map is not a JSON object");
  if (!get_word (json, "layout", layout_parse, &layout, "layout", LAYOUT_NAMES,
                 why))
    return false;
  if (layout == -1)
    return bad (why, "layout: missing; give one of " LAYOUT_NAMES);
  m->layout = layout;
  if (!get_word (json, "dup", array_dup_parse, &dup, "duplication",
                 "async-client or sync-client", why))
    return false;
  m->dup = dup;
  if (json_object_get (json, "unit") == NULL)
    return bad (why,
                "unit: missing; give the bytes of a stripe unit, such as "
                "%llu",
                (unsigned long long) UNIT_BYTES_DEFAULT);
  if (!get_integer (json, "unit", UNIT_BYTES_MIN, UNIT_BYTES_MAX, &m->unit,
                    why) ||
      !get_integer (json, "n", 1, GROUP_MEMBERS_MAX, &n, why) ||
      !get_integer (json, "groups", 1, ARRAY_GROUPS_MAX, &groups, why) ||
      !get_integer (json, "epoch", 0, EPOCH_MAX, &m->epoch, why) ||
      !get_integer (json, "round", 0, EPOCH_MAX, &m->round, why) ||
      !get_integer (json, "member_bytes", 1, MEMBER_DATA_BYTES_MAX,
                    &m->member_bytes, why) ||
      !get_string (json, "name", "name", NAME_BYTES_MAX, &m->name, why) ||
      !get_string (json, "session", "session", NAME_BYTES_MAX, &m->session,
                   why))
    return false;
  if (m->unit == 0) /* JSON's null */
    return bad (why, "unit: not an integer");
  m->groups = groups;
  if (!json_is_array (members))
    return bad (why, "members: %s", members ? "not an array" : "missing");
  if (json_array_size (members) < 1 ||
      json_array_size (members) > ARRAY_MEMBERS_MAX)
    return bad (why, "members: %zu of them; give 1 to %u",
                json_array_size (members), (unsigned) ARRAY_MEMBERS_MAX);
  /* members counts what map_free has to free. */
  for (i = 0; i < json_array_size (members); i++) {
    m->members = i + 1;
    if (!get_member (m, json_array_get (members, i), i, why))
      return false;
  }
  return check_shape (m, n, why);
}

struct map *
map_from_json (const json_t *json, char *text, size_t text_size)
{
  const struct why why = { text, text_size };
  struct map *m = calloc (1, sizeof *m);

  if (m == NULL)
    bad (&why, "out of memory");
  else if (get_map (m, json, &why))
    return m;
  map_free (m);
  return NULL;
}

/* The first field of an object that isn't in the list, or NULL. */
static const char *
unknown_field (const json_t *json, const char *const known[])
{
  const char *key;
  json_t *value;
  unsigned i;

  json_object_foreach ((json_t *) json, key, value) {
    for (i = 0; known[i] && strcmp (known[i], key) != 0; i++)
      ;
    if (known[i] == NULL)
      return key;
  }
  return NULL;
}

static bool
check_fields (const json_t *json, const struct why *why)
{
  static const char *const map_fields[] = {
    "name",    "layout",       "n",       "groups", "unit", "dup", "epoch",
    "session", "member_bytes", "members", NULL
  };
  static const char *const member_fields[] = { "uri", "name", "state", "tokens",
                                               NULL };
  static const char *const token_fields[] = { "data", "batch", "intents",
                                              NULL };
  const char *key;
  size_t i;
  json_t *member;

  key = unknown_field (json, map_fields);
  if (key)
    return bad (why, "%s: unknown field; see weft-format(5)", key);
  json_array_foreach (json_object_get (json, "members"), i, member) {
    key = unknown_field (member, member_fields);
    if (key)
      return bad (why, "members[%zu].%s: unknown field; see weft-format(5)", i,
                  key);
    key = unknown_field (json_object_get (member, "tokens"), token_fields);
    if (key)
      return bad (why,
                  "members[%zu].tokens.%s: unknown field; see "
                  "weft-format(5)",
                  i, key);
  }
  return true;
}

struct map *
map_from_file (const char *path, char *text, size_t text_size)
{
  char reason[512];
  const struct why why = { reason, sizeof reason };
  json_error_t e;
  json_t *json;
  struct map *m = NULL;

  json = json_load_file (path, JSON_REJECT_DUPLICATES, &e);
  if (json == NULL) {
    if (e.line > 0)
      snprintf (text, text_size,
                "%s:%d:%d: %s; the map must be one JSON "
                "object",
                path, e.line, e.column, e.text);
    else
      snprintf (text, text_size, "%s: %s", path, e.text);
    return NULL;
  }
  if (check_fields (json, &why))
    m = map_from_json (json, reason, sizeof reason);
  if (m == NULL)
    snprintf (text, text_size, "%s: %s", path, reason);
  json_decref (json);
  return m;
}

bool
map_member_copy (struct map_member *to, const struct map_member *from)
{
  char **const strings[] = { &to->name, &to->uri, &to->token_data,
                             &to->token_batch, &to->token_intents };
  bool copied = true;

  *to = *from;
  for (unsigned i = 0; i < sizeof strings / sizeof strings[0]; i++)
    if (*strings[i]) {
      *strings[i] = strdup (*strings[i]);
      copied &= *strings[i] != NULL;
    }
  if (!copied)
    map_member_free (to);
  return copied;
}

void
map_member_free (struct map_member *mm)
{
  free (mm->name);
  free (mm->uri);
  free (mm->token_data);
  free (mm->token_batch);
  free (mm->token_intents);
  *mm = (struct map_member) { .name = NULL };
}

void
map_free (struct map *m)
{
  unsigned i;

  if (m == NULL)
    return;
  for (i = 0; i < m->members; i++)
    map_member_free (&m->member[i]);
  free (m->name);
  free (m->session);
  free (m);
}
