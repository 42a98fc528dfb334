/* fields.c: see fields.h. */

#include <config.h>

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "fields.h"
#include "format/format.h"
#include "base/name.h"
#include "common/refuse.h"
#include "text.h"

void
fields_begin (struct fields *f, const json_t *object)
{
  memset (f, 0, sizeof *f);
  f->object = object;
  if (!json_is_object (object))
    fields_fail (f, "", "the body must be a JSON object");
}

void
fields_fail (struct fields *f, const char *field, const char *fmt, ...)
{
  va_list ap;

  if (f->failed)
    return;
  f->failed = true;
  snprintf (f->field, sizeof f->field, "%s", field);
  va_start (ap, fmt);
  vsnprintf (f->why, sizeof f->why, fmt, ap);
  va_end (ap);
}

void
fields_end (struct fields *f)
{
  const char *key;
  json_t *value;
  bool known;

  if (f->failed)
    return;
  json_object_foreach ((json_t *) f->object, key, value) {
    known = false;
    for (size_t i = 0; i < f->seen_count; i++)
      known = known || strcmp (f->seen[i], key) == 0;
    if (!known)
      fields_fail (f, key, "there is no field of this name here");
  }
}

int
fields_result (const struct fields *f, char *why, size_t why_size)
{
  return f->failed ? refuse (why, why_size, "%s", f->why) : 0;
}

/* The first failure is kept: a missing value may fail again later. */
const json_t *
fields_get (struct fields *f, const char *name)
{
  const json_t *value;

  if (f->failed)
    return NULL;
  assert (f->seen_count < FIELDS_MAX);
  f->seen[f->seen_count++] = name;
  value = json_object_get (f->object, name);
  if (value == NULL)
    fields_fail (f, name, "field %s is missing", name);
  return value;
}

bool
fields_has (struct fields *f, const char *name)
{
  const json_t *value;

  if (f->failed)
    return false;
  value = json_object_get (f->object, name);
  if (value == NULL || json_is_null (value)) {
    assert (f->seen_count < FIELDS_MAX);
    f->seen[f->seen_count++] = name;
    return false;
  }
  return true;
}

bool
fields_whole (const json_t *v, uint64_t *value)
{
  double x = json_real_value (v);

  if (json_is_integer (v) && json_integer_value (v) >= 0)
    *value = (uint64_t) json_integer_value (v);
  else if (json_is_real (v) && x >= 0 && x < 0x1p63 &&
           (double) (uint64_t) x == x)
    *value = (uint64_t) x;
  else
    return false;
  return true;
}

void
fields_u64 (struct fields *f, const char *name, uint64_t min, uint64_t max,
            uint64_t *value)
{
  const json_t *v = fields_get (f, name);
  uint64_t n;

  if (!fields_whole (v, &n) || n < min || n > max)
    fields_fail (f, name,
                 "field %s must be a whole number from %" PRIu64 " to %" PRIu64,
                 name, min, max);
  else
    *value = n;
}

void
fields_real (struct fields *f, const char *name, double *value)
{
  const json_t *v = fields_get (f, name);

  if (!json_is_number (v) || json_number_value (v) < 0)
    fields_fail (f, name, "field %s must be a number that is not negative",
                 name);
  else
    *value = json_number_value (v);
}

void
fields_bool (struct fields *f, const char *name, bool *value)
{
  const json_t *v = fields_get (f, name);

  if (!json_is_boolean (v))
    fields_fail (f, name, "field %s must be true or false", name);
  else
    *value = json_is_true (v);
}

static const char *
get_text (struct fields *f, const char *name)
{
  const json_t *v = fields_get (f, name);
  const char *text = json_string_value (v);

  if (text == NULL)
    fields_fail (f, name, "field %s must be a string", name);
  else if (strlen (text) != json_string_length (v))
    fields_fail (f, name, "field %s must not hold a NUL", name);
  return f->failed ? NULL : text;
}

static bool
is_control (char c)
{
  return (unsigned char) c < 0x20 || c == 0x7f;
}

void
fields_text (struct fields *f, const char *name, char *text, size_t size)
{
  const char *v = get_text (f, name);
  bool fine = v && strlen (v) < size;

  if (v == NULL)
    return;
  for (const char *p = v; *p; p++)
    fine = fine && !is_control (*p);
  if (!fine)
    fields_fail (
      f, name,
      "field %s must be text of at most %zu bytes without control characters",
      name, size - 1);
  else
    strcpy (text, v);
}

void
fields_prose (struct fields *f, const char *name, char *text, size_t size)
{
  const char *v = get_text (f, name);
  size_t i;

  if (v == NULL)
    return;
  for (i = 0; v[i] && i < size - 1; i++)
    text[i] = is_control (v[i]) ? ' ' : v[i];
  /* Never cut within a character. */
  while (v[i] && i > 0 && ((unsigned char) v[i] & 0xc0) == 0x80)
    i--;
  text[i] = '\0';
}

void
fields_name (struct fields *f, const char *name, char *text, size_t size)
{
  const char *v = get_text (f, name);

  if (v == NULL)
    return;
  assert (size > NAME_BYTES_MAX);
  if (!name_valid (v))
    fields_fail (f, name,
                 "field %s must be a name: at most %d lower-case letters, "
                 "digits and '-', not beginning with '-'",
                 name, NAME_BYTES_MAX);
  else
    strcpy (text, v);
}

void
fields_uri (struct fields *f, const char *name, char *text, size_t size)
{
  fields_text (f, name, text, size);
  if (!f->failed && strncmp (text, "nbd://", 6) != 0 &&
      strncmp (text, "nbds://", 7) != 0 &&
      strncmp (text, "nbd+unix://", 11) != 0 &&
      strncmp (text, "nbds+unix://", 12) != 0)
    fields_fail (f, name,
                 "field %s must be an NBD URI, such as nbd://127.0.0.1:10810",
                 name);
}

static int
hex_digit (char c)
{
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

bool
fields_parse_hex (const char *text, uint8_t *bytes, size_t count)
{
  if (strlen (text) != 2 * count)
    return false;
  for (size_t i = 0; i < count; i++) {
    int high = hex_digit (text[2 * i]), low = hex_digit (text[2 * i + 1]);

    if (high == -1 || low == -1)
      return false;
    bytes[i] = (uint8_t) (high << 4 | low);
  }
  return true;
}

bool
fields_parse_id (const char *text, uint64_t *id)
{
  uint8_t bytes[8];

  if (!fields_parse_hex (text, bytes, sizeof bytes))
    return false;
  memcpy (id, bytes, sizeof bytes);
  *id = be64toh (*id);
  return true;
}

void
fields_hex (struct fields *f, const char *name, uint8_t *bytes, size_t count)
{
  const char *v = get_text (f, name);

  if (v && !fields_parse_hex (v, bytes, count))
    fields_fail (f, name, "field %s must be %zu lower-case hex digits", name,
                 2 * count);
}

void
fields_uuid (struct fields *f, const char *name, uint8_t uuid[16])
{
  const char *v = get_text (f, name);

  if (v && format_uuid_parse (v, uuid) == -1)
    fields_fail (f, name, "field %s must be a UUID in lower case", name);
}

void
fields_word (struct fields *f, const char *name,
             int (*parse) (const char *word), const char *words, int *value)
{
  const char *v = get_text (f, name);
  int i;

  if (v == NULL)
    return;
  i = parse (v);
  if (i == -1)
    fields_fail (f, name, "field %s must be one of %s", name, words);
  else
    *value = i;
}

static const json_t *
get_list (struct fields *f, const char *name, unsigned max, unsigned *count)
{
  const json_t *v = fields_get (f, name);

  *count = 0;
  if (v && (!json_is_array (v) || json_array_size (v) > max))
    fields_fail (f, name, "field %s must be a list of at most %u elements",
                 name, max);
  if (f->failed)
    return NULL;
  *count = (unsigned) json_array_size (v);
  return v;
}

void
fields_words (struct fields *f, const char *name,
              int (*parse) (const char *word), const char *words, unsigned max,
              uint8_t *values, unsigned *count)
{
  const json_t *list = get_list (f, name, max, count);

  for (unsigned i = 0; i < *count; i++) {
    const char *word = json_string_value (json_array_get (list, i));
    int value = word ? parse (word) : -1;

    if (value == -1)
      fields_fail (f, name, "element %u of field %s must be one of %s", i, name,
                   words);
    else
      values[i] = (uint8_t) value;
  }
}

void
fields_bools (struct fields *f, const char *name, unsigned max, bool *values,
              unsigned *count)
{
  const json_t *list = get_list (f, name, max, count);

  for (unsigned i = 0; i < *count; i++) {
    const json_t *v = json_array_get (list, i);

    if (!json_is_boolean (v))
      fields_fail (f, name, "element %u of field %s must be true or false", i,
                   name);
    else
      values[i] = json_is_true (v);
  }
}

void
fields_names (struct fields *f, const char *name, unsigned min, unsigned max,
              char (*names)[NAME_BYTES_MAX + 1], unsigned *count)
{
  const json_t *list = get_list (f, name, max, count);

  if (!f->failed && *count < min)
    fields_fail (f, name, "field %s must have at least %u names", name, min);
  for (unsigned i = 0; i < *count && !f->failed; i++) {
    const char *word = json_string_value (json_array_get (list, i));

    if (word == NULL || !name_valid (word)) {
      fields_fail (f, name,
                   "element %u of field %s must be a name: small letters, "
                   "digits and hyphens, at most %d",
                   i, name, NAME_BYTES_MAX);
      return;
    }
    strcpy (names[i], word);
    for (unsigned k = 0; k < i; k++)
      if (strcmp (names[k], word) == 0)
        fields_fail (f, name, "%s stands twice in field %s", word, name);
  }
}

json_t *
fields_names_json (const char (*names)[NAME_BYTES_MAX + 1], unsigned count)
{
  json_t *list = json_array ();

  for (unsigned i = 0; i < count; i++)
    json_array_append_new (list, json_string (names[i]));
  return list;
}

bool
fields_enter (struct fields *f, const char *name, struct fields *inner)
{
  const json_t *object = fields_get (f, name);

  fields_begin (inner, object);
  if (inner->failed)
    fields_fail (f, name, "field %s must be an object", name);
  return !inner->failed;
}

void
fields_leave (struct fields *f, const char *name, const struct fields *inner)
{
  char both[2 * sizeof inner->field];

  snprintf (both, sizeof both, "%s.%s", name, inner->field);
  if (inner->failed)
    fields_fail (f, both, "in %s: %.200s", name, inner->why);
}

/* ---- Fields that have places of their own in a struct. ---- */

void
fields_take (struct fields *f, const struct field *table, void *to)
{
  static void (*const texts[]) (struct fields *f, const char *name, char *text,
                                size_t size) = {
    [FIELD_TEXT] = fields_text,
    [FIELD_PROSE] = fields_prose,
    [FIELD_NAME] = fields_name,
  };

  for (; table->name; table++) {
    const char *name = table->name;
    void *at = (char *) to + table->offset;
    uint64_t n = 0;
    int value = 0;

    if (table->optional && !fields_has (f, name))
      continue;
    switch (table->kind) {
    case FIELD_NUMBER:
      assert (table->size == sizeof n ||
              (table->size == sizeof (unsigned) && table->max <= UINT_MAX &&
               table->max > 0));
      fields_u64 (f, name, table->min, table->max ? table->max : INT64_MAX, &n);
      if (table->size == sizeof n)
        *(uint64_t *) at = n;
      else
        *(unsigned *) at = (unsigned) n;
      break;
    case FIELD_REAL:
      fields_real (f, name, at);
      break;
    case FIELD_BOOL:
      fields_bool (f, name, at);
      break;
    case FIELD_TEXT:
    case FIELD_PROSE:
    case FIELD_NAME:
      texts[table->kind](f, name, at, table->size);
      break;
    case FIELD_HEX:
      fields_hex (f, name, at, table->size);
      break;
    case FIELD_UUID:
      fields_uuid (f, name, at);
      break;
    case FIELD_WORD:
      fields_word (f, name, table->parse, table->words, &value);
      *(unsigned *) at = (unsigned) value;
      break;
    }
  }
}

json_t *
fields_object (const struct field_value *table)
{
  json_t *object = json_object ();

  for (; table->name; table++)
    if (json_object_set_new (object, table->name, table->value) == -1)
      abort ();
  return object;
}

json_t *
fields_json (const struct field *table, const void *from)
{
  json_t *object = json_object (), *value = NULL;

  for (; table->name; table++) {
    const void *at = (const char *) from + table->offset;
    uint64_t n;

    switch (table->kind) {
    case FIELD_NUMBER:
      n = table->size == sizeof n ? *(const uint64_t *) at
                                  : *(const unsigned *) at;
      assert (n <= INT64_MAX);
      value = json_integer ((json_int_t) n);
      break;
    case FIELD_REAL:
      value = json_real (*(const double *) at);
      break;
    case FIELD_BOOL:
      value = json_boolean (*(const bool *) at);
      break;
    case FIELD_TEXT:
    case FIELD_PROSE:
    case FIELD_NAME:
      value = text_string (at);
      break;
    case FIELD_HEX:
      value = text_hex (at, table->size);
      break;
    case FIELD_UUID:
      value = table->optional ? text_uuid_or_null (at) : text_uuid (at);
      break;
    case FIELD_WORD:
      value = json_string (table->print (*(const unsigned *) at));
      break;
    }
    json_object_set_new (object, table->name, value);
  }
  return object;
}
