/* fields.h: JSON objects, field by field: read strictly, or made.
 *
 * Every function that reads returns nothing: the first thing that is wrong is kept, with
 * the field's name and a sentence, and all later calls do nothing.
 */

#ifndef WEFT_FIELDS_H
#define WEFT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/bounds.h"

#define FIELDS_MAX 48

struct fields {
  const json_t *object;
  const char *seen[FIELDS_MAX];
  size_t seen_count;
  bool failed;
  char field[80]; /* the error, */
  char why[256];  /* and how: a sentence */
};

void fields_begin (struct fields *f, const json_t *object);
/* Note a failure that the caller found. */
void fields_fail (struct fields *f, const char *field, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* Fails for fields that were not asked for. */
void fields_end (struct fields *f);
/* Returns 0, or -1 with what failed in why. */
int fields_result (const struct fields *f, char *why, size_t why_size);

/* Present and not null? */
bool fields_has (struct fields *f, const char *name);

/* Each of these wants the field to be there. */
void fields_u64 (struct fields *f, const char *name, uint64_t min, uint64_t max,
                 uint64_t *value);
void fields_real (struct fields *f, const char *name, double *value);
void fields_bool (struct fields *f, const char *name, bool *value);
/* Text without control characters, that fits. */
void fields_text (struct fields *f, const char *name, char *text, size_t size);
/* The same, cut where it is too long. */
void fields_prose (struct fields *f, const char *name, char *text, size_t size);
void fields_name (struct fields *f, const char *name, char *text, size_t size);
void fields_uri (struct fields *f, const char *name, char *text, size_t size);
void fields_hex (struct fields *f, const char *name, uint8_t *bytes,
                 size_t count);
void fields_uuid (struct fields *f, const char *name, uint8_t uuid[16]);
/* parse gives -1 for an unknown word; the error then lists `words`. */
void fields_word (struct fields *f, const char *name,
                  int (*parse) (const char *word), const char *words,
                  int *value);
/* Lists of at most `max` elements; *count gets how many there are. */
void fields_words (struct fields *f, const char *name,
                   int (*parse) (const char *word), const char *words,
                   unsigned max, uint8_t *values, unsigned *count);
void fields_bools (struct fields *f, const char *name, unsigned max,
                   bool *values, unsigned *count);
/* At least `min` names, none twice. */
void fields_names (struct fields *f, const char *name, unsigned min,
                   unsigned max, char (*names)[NAME_BYTES_MAX + 1],
                   unsigned *count);
/* The list that fields_names would read. */
json_t *fields_names_json (const char (*names)[NAME_BYTES_MAX + 1],
                           unsigned count);

/* ---- Fields that have places of their own in a struct. ---- */

enum field_kind {
  FIELD_NUMBER, /* a uint64_t, or an unsigned */
  FIELD_REAL,
  FIELD_BOOL,
  FIELD_TEXT,
  FIELD_PROSE,
  FIELD_NAME,
  FIELD_HEX,
  FIELD_UUID, /* where it may be missing, zero stands for that */
  FIELD_WORD, /* an enum */
};

struct field {
  const char *name;
  enum field_kind kind;
  size_t offset, size;
  bool optional;                   /* without it the struct keeps what it has */
  uint64_t min, max;               /* of a number; max 0: INT64_MAX */
  int (*parse) (const char *word); /* of a word, as for fields_word */
  const char *words;
  const char *(*print) (unsigned value); /* for fields_json alone */
};

#define FIELD_AT(type, member)                                                 \
  .offset = offsetof (struct type, member),                                    \
  .size = sizeof (((struct type *) NULL)->member)

/* A table ends with a field without a name. */
void fields_take (struct fields *f, const struct field *table, void *to);
/* The object that fields_take would read. */
json_t *fields_json (const struct field *table, const void *from);

/* ---- Objects of values that are made for the reader. ---- */

struct field_value {
  const char *name;
  json_t *value;
};

/* The object of these values, which it takes over.  The table ends with a field without a
 * name.
 */
json_t *fields_object (const struct field_value *table);

/* ---- Other values. ---- */

/* The value, for the caller to look into; NULL: it is missing, and that failed. */
const json_t *fields_get (struct fields *f, const char *name);
/* Begin with the object that is the value of a field.  False: it is none. */
bool fields_enter (struct fields *f, const char *name, struct fields *inner);
/* A failure in it is a failure of f. */
void fields_leave (struct fields *f, const char *name,
                   const struct fields *inner);

/* A whole number that is not negative, however it is written: 3.0 is one. */
bool fields_whole (const json_t *v, uint64_t *value);

/* Of 16 hex digits, as text_session writes it. */
bool fields_parse_id (const char *text, uint64_t *id);
/* Well-formed: 2 * count digits. */
bool fields_parse_hex (const char *text, uint8_t *bytes, size_t count);

#endif /* WEFT_FIELDS_H */
