/* idempotency.c: see idempotency.h. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "alloc.h"
#include "common/clock.h"
#include "fields.h"
#include "idempotency.h"
#include "text.h"
#include "views.h"

#define NAME_BYTES 16 /* of a digest of caller and key */

struct entry {
  TAILQ_ENTRY (entry) link;
  char name[2 * NAME_BYTES + 1];
  uint8_t digest[SHA256_DIGEST_LENGTH];
  const struct request *request; /* under way; NULL: answered */
  uint64_t wall_ms, at_ms; /* when it was answered, and by clock_boot_ms */
  int status;
  char *body; /* as text: of an array of many members it takes a fifth of the
                 memory that JSON takes */
};

TAILQ_HEAD (entries, entry);

struct idempotency {
  struct entries entries; /* in the order of their answers */
  unsigned count;
};

struct idempotency *
idempotency_new (void)
{
  struct idempotency *i = alloc_zeroed (sizeof *i);

  TAILQ_INIT (&i->entries);
  return i;
}

static void
drop (struct idempotency *i, struct entry *e)
{
  TAILQ_REMOVE (&i->entries, e, link);
  i->count--;
  free (e->body);
  free (e);
}

void
idempotency_free (struct idempotency *i)
{
  struct entry *e;

  if (i == NULL)
    return;
  while ((e = TAILQ_FIRST (&i->entries)) != NULL)
    drop (i, e);
  free (i);
}

static struct entry *
add (struct idempotency *i, const char *name)
{
  struct entry *e = alloc_zeroed (sizeof *e);

  snprintf (e->name, sizeof e->name, "%s", name);
  TAILQ_INSERT_TAIL (&i->entries, e, link);
  i->count++;
  return e;
}

static void
name_of (const struct request *r, char name[2 * NAME_BYTES + 1])
{
  uint8_t digest[SHA256_DIGEST_LENGTH];
  char *text = alloc_print ("%d %s %s", (int) r->caller.via, r->caller.name,
                            r->query.idempotency_key);

  SHA256 ((const uint8_t *) text, strlen (text), digest);
  free (text);
  text_hex_print (digest, NAME_BYTES, name);
}

static struct entry *
find (struct idempotency *i, const char *name)
{
  struct entry *e;

  TAILQ_FOREACH (e, &i->entries, link)
    if (strcmp (e->name, name) == 0)
      return e;
  return NULL;
}

/* ---- What is stored. ---- */

int
idempotency_load (struct idempotency *i, const char *key, const char *json,
                  char *why, size_t why_size)
{
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, NULL);
  json_t *body = json_object_get (object, "body");
  struct entry *e = NULL, *later;
  uint64_t status = 0;
  struct fields f;

  fields_begin (&f, object);
  if (strlen (key) != 2 * NAME_BYTES || !json_is_object (body))
    fields_fail (&f, "body", "it is no answer that was given");
  else
    e = add (i, key);
  if (e) {
    fields_u64 (&f, "at_ms", 0, INT64_MAX, &e->wall_ms);
    e->at_ms =
      clock_boot_ms (); /* how long ago it was no clock says for sure */
    fields_hex (&f, "digest", e->digest, sizeof e->digest);
    fields_u64 (&f, "status", 200, 299, &status);
    e->status = (int) status;
    e->body = alloc_json (body);
    /* They come in the order of their names. */
    TAILQ_REMOVE (&i->entries, e, link);
    TAILQ_FOREACH (later, &i->entries, link)
      if (later->wall_ms > e->wall_ms)
        break;
    if (later)
      TAILQ_INSERT_BEFORE (later, e, link);
    else
      TAILQ_INSERT_TAIL (&i->entries, e, link);
  }
  json_decref (object);
  return fields_result (&f, why, why_size);
}

/* ---- Requests. ---- */

static bool
expired (const struct entry *e)
{
  return e->request == NULL && clock_boot_ms () > e->at_ms + IDEMPOTENCY_MS;
}

bool
idempotency_begin (struct idempotency *i, struct request *r, int *status,
                   json_t **body)
{
  char name[2 * NAME_BYTES + 1];
  struct entry *e;

  if (r->query.idempotency_key[0] == '\0' || r->query.dry_run)
    return false;
  name_of (r, name);
  e = find (i, name);
  if (e && expired (e)) {
    drop (i, e); /* the new answer's record takes the old one's place */
    e = NULL;
  }
  if (e == NULL) {
    e = add (i, name);
    memcpy (e->digest, r->query.digest, sizeof e->digest);
    e->request = r;
    return false;
  }
  if (memcmp (e->digest, r->query.digest, sizeof e->digest) != 0) {
    *status = 422;
    *body = view_error (422, "Idempotency-Key", "key-reused",
                        "this Idempotency-Key stands for another request: make "
                        "a new key for each new request");
  }
  else if (e->request) {
    *status = 409;
    *body = view_error (409, "Idempotency-Key", "under-way",
                        "the first request with this Idempotency-Key is still "
                        "under way: ask again in a moment");
    strcat (r->headers, "Retry-After: 1\r\n");
  }
  else {
    *status = e->status;
    *body = json_loads (e->body, 0, NULL);
    strcat (r->headers, "Idempotent-Replay: true\r\n");
  }
  return true;
}

/* Entries that are too old or too many. */
static void
forget (struct idempotency *i, struct store_txn *t)
{
  struct entry *e, *next;

  TAILQ_FOREACH_SAFE (e, &i->entries, link, next) {
    if (e->request)
      continue;
    if (!expired (e) && i->count <= IDEMPOTENCY_MAX)
      return;
    store_txn_add (t, IDEMPOTENCY_KIND, e->name, NULL);
    drop (i, e);
  }
}

void
idempotency_answer (struct idempotency *i, const struct request *r,
                    uint64_t wall_ms, int status, const json_t *body,
                    struct store_txn *t)
{
  struct entry *e;

  if (r->query.idempotency_key[0] == '\0')
    return;
  TAILQ_FOREACH (e, &i->entries, link)
    if (e->request == r)
      break;
  if (e == NULL)
    return; /* it was a replay, or was refused */
  if (status >= 400 || body == NULL) {
    drop (i, e);
    return;
  }
  e->request = NULL;
  e->wall_ms = wall_ms;
  e->at_ms = clock_boot_ms ();
  e->status = status;
  e->body = alloc_json (body);
  TAILQ_REMOVE (&i->entries, e, link);
  TAILQ_INSERT_TAIL (&i->entries, e, link);
  store_txn_put (t, IDEMPOTENCY_KIND, e->name,
                 json_pack ("{so so si sO}", "at_ms", text_number (e->wall_ms),
                            "digest", text_hex (e->digest, sizeof e->digest),
                            "status", e->status, "body", body));
  forget (i, t);
}
