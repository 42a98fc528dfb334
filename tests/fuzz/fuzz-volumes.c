/* fuzz-volumes.c: weftd's words about volumes, as plugin/volumes-messages.c reads them, against
 * the holder.  Its invariants hold after each answer, and what it accepts of a grant is of the
 * pool, and in use for nobody.
 *
 * The input: steps, each a byte and a JSON text that ends with a NUL.
 */

#include <config.h>

#include "fuzz.h"
#include "plugin/volumes-messages.c"

#define VOLUMES 3

static struct pool_header pool;
static struct holder *holder;
static struct holder_volume *volumes[VOLUMES];
static uint64_t now_ms;

static void
opened (const json_t *json, unsigned i)
{
  struct volumes_messages_volume v = { 0 };
  struct volume_run *runs;
  unsigned count;
  const char *why = NULL;

  if (volumes_messages_volume (json_object_get (json, "volume"), &pool, &v))
    assert (v.root < pool.roots && name_valid (v.name));
  if (volumes_messages_runs (json_object_get (json, "runs"), &runs, &count) &&
      !volumes[i]) {
    volumes[i] = holder_open (holder, (const uint8_t[16]) { 1 + i }, runs,
                              count, &why);
    assert (volumes[i] || why);
  }
  free (runs);
}

static void
ordered (const json_t *json)
{
  const json_t *one;
  struct holder_order o;
  size_t i;

  json_array_foreach (json_object_get (json, "volumes"), i, one)
    if (volumes_messages_order (one, &pool, &o))
      holder_ordered (holder, &o, 1);
  while (holder_next_order (holder, &o))
    holder_did (holder, o.number, o.size ? "no" : NULL);
}

static void
answered (const json_t *json, unsigned i, int status)
{
  struct holder_facts facts = { .want = 5, .said = { .size = i } };
  const struct holder_message *m;
  struct volume_run *runs;
  unsigned count;

  if (!volumes[i])
    return;
  holder_tell (holder, volumes[i], &facts);
  m = holder_next (holder, now_ms);
  if (!m)
    return;
  json_decref (volumes_messages ("i", m));
  volumes_messages_runs (json_object_get (json, "granted"), &runs, &count);
  for (unsigned k = 0; k < count; k++)
    if (holder_granted (holder, volumes[i], &runs[k])) {
      assert (runs[k].first >= pool_first_segment (&pool) &&
              runs[k].first + runs[k].count <= pool.segments);
      if (status != 200)
        holder_give (holder, volumes[i], &runs[k], 1);
    }
  holder_answered (holder, status, now_ms);
  free (runs);
}

static void
attached (const json_t *json)
{
  struct pool_header h = { 0 };
  bool formatted;
  const char *why = volumes_messages_pool (json, GiB (1), &h, &formatted);

  assert (why || (h.roots > 0 && pool_first_segment (&h) < h.segments));
}

/* A scan is over only by an answer that says so. */
static void
scanned (const json_t *json)
{
  const json_t *said = json_object_get (json, "pool");
  bool over = false;
  uint8_t uuid[16];

  (void) volumes_messages_uuid (said, uuid);
  if (volumes_messages_scanned (200, "", json, &over) == VOLUMES_MESSAGES_NEXT)
    assert (over ? json_is_null (said) ||
                     json_is_false (json_object_get (said, "scan"))
                 : json_is_true (json_object_get (said, "scan")));
  else
    assert (!over);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  const char *why;

  assert (pool_plan (GiB (1), 0, &pool, &why) == 0);
  holder = holder_new (pool_first_segment (&pool), pool.segments);
  memset (volumes, 0, sizeof volumes);
  now_ms = 1;
  while (f.left > 0) {
    unsigned step = fuzz_below (&f, 256), i = step / 8 % VOLUMES;
    size_t n;
    char *text = fuzz_text (&f, &n);
    json_t *json = json_loadb (text, n, 0, NULL);

    now_ms += 700;
    if (step % 8 == 0)
      opened (json, i);
    else if (step % 8 == 1)
      ordered (json);
    else if (step % 8 == 2)
      attached (json);
    else if (step % 8 == 7)
      scanned (json);
    else
      answered (json, i, step % 8 < 6 ? 200 : 409);
    holder_check (holder);
    json_decref (json);
    free (text);
  }
  holder_free (holder);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char input[] =
    "\0{\"volume\":{\"uuid\":\"0ef0da70-c0ca-40b0-ba5b-9a5a8c451535\","
    "\"name\":\"one\",\"root\":3,\"size\":512,\"new\":true},"
    "\"runs\":[[10,3],[20,1]]}\0"
    "\1{\"volumes\":[{\"order\":7,\"do\":\"resize\",\"size\":1024,\"volume\":"
    "{\"uuid\":\"0ef0da70-c0ca-40b0-ba5b-9a5a8c451535\",\"name\":\"one\","
    "\"root\":3,\"size\":512}},{\"order\":8,\"do\":\"delete\",\"volume\":"
    "{\"uuid\":\"0ef0da70-c0ca-40b0-ba5b-9a5a8c451535\",\"name\":\"one\","
    "\"root\":3,\"size\":512}}]}\0"
    "\2{\"uuid\":\"0ef0da70-c0ca-40b0-ba5b-9a5a8c451535\","
    "\"segment_bytes\":1048576,\"segments\":1024,\"roots\":16,"
    "\"formatted\":true}\0"
    "\3{\"granted\":[[30,5],[12,1],[1,1]]}\0"
    "\6{\"granted\":[[40,5]]}\0"
    "\7{\"pool\":{\"scan\":true}}\0"
    "\7{\"pool\":null}\0";

  seed (input, sizeof input - 1);
}
