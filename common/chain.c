/* chain.c: see chain.h. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/bytes.h"
#include "chain.h"
#include "refuse.h"

#define HASH_FIELD ",\"hash\":\""
#define HASH_END "\"}"
/* The bytes that `hash` adds to a line. */
#define ADDED_BYTES                                                            \
  (sizeof HASH_FIELD - 1 + CHAIN_HASH_BYTES - 1 + sizeof HASH_END - 1)

/* Is this the line whose field `hash` would stand after these bytes? */
static bool
make_hash (const char *line, size_t bytes, char hash[CHAIN_HASH_BYTES])
{
  uint8_t digest[(CHAIN_HASH_BYTES - 1) / 2];
  EVP_MD_CTX *md = EVP_MD_CTX_new ();
  bool fine = md && EVP_DigestInit_ex (md, EVP_sha256 (), NULL) == 1 &&
              EVP_DigestUpdate (md, line, bytes) == 1 &&
              EVP_DigestUpdate (md, "}", 1) == 1 &&
              EVP_DigestFinal_ex (md, digest, NULL) == 1;

  EVP_MD_CTX_free (md);
  if (fine)
    *put_hex (hash, digest, sizeof digest) = '\0';
  return fine;
}

char *
chain_line (const json_t *json, struct chain_link *link)
{
  json_t *whole = json_object ();
  char *line = NULL, *text;

  json_object_set_new (whole, "number",
                       json_integer ((json_int_t) link->number));
  json_object_update (whole, (json_t *) (uintptr_t) json);
  json_object_set_new (whole, "previous", json_string (link->previous));
  text = json_dumps (whole, JSON_COMPACT | JSON_ENSURE_ASCII);
  json_decref (whole);
  if (text == NULL)
    return NULL;
  text[strlen (text) - 1] = '\0'; /* the last brace */
  if (!make_hash (text, strlen (text), link->hash) ||
      asprintf (&line, "%s" HASH_FIELD "%s" HASH_END, text, link->hash) == -1)
    line = NULL;
  free (text);
  return line;
}

static bool
take_hash (const json_t *json, const char *field, char hash[CHAIN_HASH_BYTES])
{
  const char *text = json_string_value (json_object_get (json, field));

  if (text == NULL || strlen (text) != CHAIN_HASH_BYTES - 1)
    return false;
  memcpy (hash, text, CHAIN_HASH_BYTES);
  return true;
}

int
chain_read (const char *line, size_t bytes, struct chain_link *link, char *why,
            size_t why_size)
{
  json_t *json = json_loadb (line, bytes, JSON_REJECT_DUPLICATES, NULL);
  json_int_t number = json_integer_value (json_object_get (json, "number"));
  bool fine = number > 0 && take_hash (json, "previous", link->previous) &&
              take_hash (json, "hash", link->hash);
  char hash[CHAIN_HASH_BYTES];

  json_decref (json);
  if (!fine)
    return refuse (why, why_size,
                   "it is no line of an audit log: number, previous or hash is "
                   "missing");
  link->number = (uint64_t) number;
  if (bytes <= ADDED_BYTES ||
      memcmp (line + bytes - ADDED_BYTES, HASH_FIELD, sizeof HASH_FIELD - 1) !=
        0 ||
      !make_hash (line, bytes - ADDED_BYTES, hash) ||
      strcmp (hash, link->hash) != 0)
    return refuse (why, why_size,
                   "number %" PRIu64 " was changed: its hash is of another "
                   "text",
                   link->number);
  return 0;
}

const char *
chain_hash (const struct chain *c, uint64_t number)
{
  return c->last.number > 0 && number >= c->first.number &&
             number <= c->last.number
           ? c->hashes[number - c->first.number]
           : NULL;
}

static int
keep (struct chain *c, const struct chain_link *link)
{
  size_t at = link->number - c->first.number;
  void *larger;

  if (at >= c->room) {
    larger = realloc (c->hashes, (2 * at + 64) * sizeof *c->hashes);
    if (larger == NULL)
      return -1;
    c->hashes = larger;
    c->room = 2 * at + 64;
  }
  memcpy (c->hashes[at], link->hash, CHAIN_HASH_BYTES);
  return 0;
}

int
chain_take (struct chain *c, const char *line, size_t bytes, char *why,
            size_t why_size)
{
  struct chain_link link;
  const char *known;

  if (chain_read (line, bytes, &link, why, why_size) == -1)
    return -1;
  known = chain_hash (c, link.number);
  if (known && strcmp (known, link.hash) == 0)
    return 0;
  if (c->last.number == 0) {
    if ((link.number == 1) != (strcmp (link.previous, CHAIN_BEGIN) == 0))
      return refuse (why, why_size,
                     "number %" PRIu64 " says that it %s the first of all",
                     link.number, link.number == 1 ? "is not" : "is");
    c->first = link;
  }
  else if (link.number != c->last.number + 1)
    return refuse (why, why_size,
                   "number %" PRIu64 " follows number %" PRIu64
                   ": lines were removed, added or moved",
                   link.number, c->last.number);
  else if (strcmp (link.previous, c->last.hash) != 0)
    return refuse (why, why_size,
                   "number %" PRIu64 " follows another number %" PRIu64
                   " than the one before it",
                   link.number, c->last.number);
  if (keep (c, &link) == -1)
    return refuse (why, why_size, "out of memory");
  c->last = link;
  return 0;
}

void
chain_clear (struct chain *c)
{
  free (c->hashes);
  memset (c, 0, sizeof *c);
}
