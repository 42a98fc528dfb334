/* query.c: see query.h. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <civetweb.h>
#include <openssl/sha.h>

#include "alloc.h"
#include "base/bounds.h"
#include "base/name.h"
#include "common/characters.h"
#include "fields.h"
#include "query.h"
#include "routes.h"
#include "text.h"

#define VALUE_BYTES (4 * QUERY_TEXT_MAX + 1)

#define refuse(problem, field, ...)                                            \
  text_refuse (problem, 400, field, NULL, __VA_ARGS__)

/* ---- Values. ---- */

static bool
take_number (const char *name, const char *text, uint64_t min, uint64_t max,
             uint64_t *value, struct refusal *problem)
{
  size_t n = strlen (text);

  /* 18 digits can't overflow. */
  if (n == 0 || n > 18 || strspn (text, "0123456789") != n ||
      (*value = strtoull (text, NULL, 10)) < min || *value > max)
    return refuse (problem, name,
                   "parameter %s must be a whole number from %llu to %llu",
                   name, (unsigned long long) min, (unsigned long long) max);
  return true;
}

static bool
take_unsigned (const char *name, const char *text, unsigned min, unsigned max,
               unsigned *value, struct refusal *problem)
{
  uint64_t n;

  if (!take_number (name, text, min, max, &n, problem))
    return false;
  *value = (unsigned) n;
  return true;
}

static bool
take_text (const char *name, const char *text, char *value, size_t size,
           struct refusal *problem)
{
  bool fine = text[0] != '\0' && strlen (text) < size;

  for (const char *p = text; *p; p++)
    fine = fine && (unsigned char) *p < 0x80;
  if (!fine)
    return refuse (problem, name,
                   "parameter %s must have 1 to %zu characters of ASCII", name,
                   size - 1);
  strcpy (value, text);
  return true;
}

static const struct {
  const char *name;
  enum query_parameter parameter;
} parameters[] = {
  { "dry_run", QUERY_DRY_RUN },   { "limit", QUERY_PAGE },
  { "cursor", QUERY_PAGE },       { "subject", QUERY_SUBJECT },
  { "severity", QUERY_SEVERITY }, { "text", QUERY_TEXT },
  { "from", QUERY_RANGE },        { "to", QUERY_RANGE },
  { "points", QUERY_RANGE },      { "member", QUERY_MEMBER },
  { "node", QUERY_NODE },         { "instance", QUERY_INSTANCE },
  { "attach", QUERY_ATTACH },     { "reached", QUERY_REACHED },
  { "unreached", QUERY_REACHED }, { "force", QUERY_FORCE },
};
#define PARAMETERS (sizeof parameters / sizeof parameters[0])

static bool
take_bool (const char *name, const char *text, bool *value,
           struct refusal *problem)
{
  *value = strcmp (text, "true") == 0;
  return *value || strcmp (text, "false") == 0 ||
         refuse (problem, name, "parameter %s must be true or false", name);
}

static bool
take_value (const char *name, enum query_parameter parameter, const char *text,
            struct query *q, struct refusal *problem)
{
  size_t characters;

  q->given |= parameter;
  switch (parameter) {
  case QUERY_DRY_RUN:
    return take_bool (name, text, &q->dry_run, problem);
  case QUERY_FORCE:
    return take_bool (name, text, &q->force, problem);
  case QUERY_PAGE:
    if (strcmp (name, "limit") == 0)
      return take_unsigned (name, text, 1, QUERY_LIMIT_MAX, &q->limit, problem);
    return take_text (name, text, q->cursor, sizeof q->cursor, problem);
  case QUERY_SUBJECT:
    return take_text (name, text, q->subject, sizeof q->subject, problem);
  case QUERY_SEVERITY:
    if (strcmp (text, "info") != 0 && strcmp (text, "warning") != 0 &&
        strcmp (text, "error") != 0)
      return refuse (problem, name,
                     "parameter severity must be one of info, warning, error");
    strcpy (q->severity, text);
    return true;
  case QUERY_TEXT:
    characters = characters_count (text);
    if (characters == 0 || characters > QUERY_TEXT_MAX)
      return refuse (problem, name,
                     "parameter text must have 1 to %d characters",
                     QUERY_TEXT_MAX);
    strcpy (q->text, text);
    return true;
  case QUERY_RANGE:
    if (strcmp (name, "points") == 0)
      return take_unsigned (name, text, 1, QUERY_POINTS_MAX, &q->points,
                            problem);
    if (strcmp (name, "from") == 0) {
      q->has_from = true;
      return take_number (name, text, 0, QUERY_TIME_MAX, &q->from, problem);
    }
    q->has_to = true;
    return take_number (name, text, 0, QUERY_TIME_MAX, &q->to, problem);
  case QUERY_MEMBER:
    return take_unsigned (name, text, 0, ARRAY_MEMBERS_MAX - 1, &q->member,
                          problem);
  case QUERY_NODE:
    if (!name_valid (text))
      return refuse (problem, name,
                     "parameter node must be a node's name: at most %d "
                     "lower-case letters, digits and '-'",
                     NAME_BYTES_MAX);
    strcpy (q->node, text);
    return true;
  case QUERY_INSTANCE:
    return take_text (name, text, q->instance, sizeof q->instance, problem);
  case QUERY_ATTACH:
    q->attach_writable = strcmp (text, "rw") == 0;
    return q->attach_writable || strcmp (text, "ro") == 0 ||
           refuse (problem, name, "parameter attach must be rw or ro");
  case QUERY_REACHED:
    q->reached = strcmp (name, "reached") == 0;
    return fields_parse_id (text, &q->session) ||
           refuse (problem, name,
                   "parameter %s must be a session's number: 16 hexadecimal "
                   "digits",
                   name);
  }
  abort ();
}

/* ---- name=value&name=value ---- */

/* Decoded, without control characters. */
static bool
decode (const char *from, size_t length, char *to, size_t size)
{
  int n = mg_url_decode (from, (int) length, to, (int) size, 1);

  json_t *text;

  if (n < 0 || strlen (to) != (size_t) n)
    return false;
  for (const char *p = to; *p; p++)
    if ((unsigned char) *p < ' ' || *p == 0x7f)
      return false;
  text = json_string (to); /* NULL: it is no UTF-8 */
  json_decref (text);
  return text != NULL;
}

static bool
take_parameters (const struct route *route, const char *text, struct query *q,
                 struct refusal *problem)
{
  unsigned takes = route->query | (route->preflight ? QUERY_DRY_RUN : 0);
  bool seen[PARAMETERS] = { false };
  size_t length;

  for (; text && *text; text += length + (text[length] == '&')) {
    char name[sizeof problem->field], value[VALUE_BYTES] = "";
    const char *equals;
    size_t i, n;

    length = strcspn (text, "&");
    if (length == 0)
      continue;
    equals = memchr (text, '=', length);
    n = equals ? (size_t) (equals - text) : length;
    if (!decode (text, n, name, sizeof name))
      return refuse (problem, "",
                     "the name of a parameter after '?' is no text or too "
                     "long");
    for (i = 0; i < PARAMETERS; i++)
      if (strcmp (parameters[i].name, name) == 0)
        break;
    if (i == PARAMETERS || !(takes & parameters[i].parameter))
      return refuse (problem, name,
                     "there is no parameter of this name here: GET "
                     "/api/v1/openapi.json lists those that there are");
    if (seen[i])
      return refuse (problem, name, "parameter %s is given twice", name);
    seen[i] = true;
    if (equals && !decode (equals + 1, length - n - 1, value, sizeof value))
      return refuse (
        problem, name,
        "parameter %s has no valid text as its value, or too long a text",
        name);
    if (!take_value (name, parameters[i].parameter, value, q, problem))
      return false;
  }
  return true;
}

/* ---- Headers. ---- */

static bool
take_header (const char *name, const char *value, char *to, size_t size,
             struct refusal *problem)
{
  size_t n = value ? strlen (value) : 0;

  if (value == NULL)
    return true;
  for (size_t i = 0; i < n; i++)
    if (value[i] < ' ' || value[i] > '~')
      n = 0;
  if (n == 0 || n >= size)
    return refuse (problem, name,
                   "header %s must have 1 to %zu characters of ASCII", name,
                   size - 1);
  strcpy (to, value);
  return true;
}

/* If-Match on a thing without an ETag is an error. */
static bool
take_match (const struct route *route, const struct query_source *source,
            struct query *q, struct refusal *problem)
{
  static const char name[] = "If-Match";

  if (source->if_match && route->configuration == NULL &&
      strcmp (route->method, "GET") != 0)
    return refuse (problem, name,
                   "%s %s has no ETag to hold %s against: ask without",
                   route->method, route->pattern, name);
  return take_header (name, source->if_match, q->if_match, sizeof q->if_match,
                      problem);
}

/* An answer with a secret is never stored, so it can't be given twice. */
static bool
take_key (const struct route *route, const struct query_source *source,
          struct query *q, struct refusal *problem)
{
  static const char name[] = "Idempotency-Key";
  char *target;

  if (source->idempotency_key == NULL || strcmp (route->method, "POST") != 0)
    return true;
  if (route->secret)
    return refuse (problem, name,
                   "%s answers with a secret, which is not stored: ask without "
                   "an Idempotency-Key",
                   route->pattern);
  if (route->who != WHO_DEFAULT)
    return true;
  if (!take_header (name, source->idempotency_key, q->idempotency_key,
                    sizeof q->idempotency_key, problem))
    return false;
  target = alloc_print ("%s?%s", source->path,
                        source->parameters ? source->parameters : "");
  SHA256 ((const uint8_t *) target, strlen (target), q->digest);
  free (target);
  return true;
}

bool
query_take (const struct route *route, const struct query_source *source,
            struct query *q, struct refusal *problem)
{
  memset (q, 0, sizeof *q);
  return take_parameters (route, source->parameters, q, problem) &&
         take_match (route, source, q, problem) &&
         take_key (route, source, q, problem);
}

void
query_take_body (struct query *q, const char *body, size_t length)
{
  uint8_t both[2 * SHA256_DIGEST_LENGTH];

  if (q->idempotency_key[0] == '\0')
    return;
  memcpy (both, q->digest, SHA256_DIGEST_LENGTH);
  SHA256 ((const uint8_t *) body, length, both + SHA256_DIGEST_LENGTH);
  SHA256 (both, sizeof both, q->digest);
}
