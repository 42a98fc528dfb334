/* fuzz-map.c: map files, and the maps in weftd's answers to an attach.  An accepted map
 * has a layout, members with URIs, and only tokens that fit in a URI.
 *
 * The input: 1 byte, even: a file; odd: an answer; the JSON.
 */

#include <config.h>

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "common/map.c"

static void
check (const struct map *m)
{
  struct map_member copy;
  struct layout l;
  char why[256];

  assert (m->members >= 1 && m->members <= ARRAY_MEMBERS_MAX &&
          m->n * m->groups == m->members);
  assert (
    layout_init (&l, m->layout, m->n, m->groups, m->unit,
                 m->member_bytes ? m->member_bytes : MEMBER_DATA_BYTES_MAX, why,
                 sizeof why) == 0);
  for (unsigned i = 0; i < m->members; i++) {
    const struct map_member *mm = &m->member[i];

    assert (mm->uri && mm->name && mm->state < MEMBER_STATES);
    assert (mm->token_data ||
            (mm->token_batch == NULL && mm->token_intents == NULL));
    if (mm->token_data)
      assert (strpbrk (mm->token_data, "/?#& ") == NULL);
    assert (mm->round <= EPOCH_MAX && mm->reach >= mm->round);
    assert (map_member_copy (&copy, mm));
    map_member_free (&copy);
  }
}

static struct map *
from_file (const char *text, size_t size, char *why, size_t why_size)
{
  static int fd = -1;
  static char path[64];

  if (fd == -1) {
    fd = memfd_create ("map", MFD_CLOEXEC);
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
  }
  assert (ftruncate (fd, 0) == 0 &&
          pwrite (fd, text, size, 0) == (ssize_t) size);
  return map_from_file (path, why, why_size);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  bool answer = fuzz_number (&f, 1) & 1;
  char why[1024] = "";
  struct map *m = NULL;
  size_t bytes;
  char *text = fuzz_rest (&f, &bytes);
  json_t *json;

  if (answer) {
    json = json_loadb (text, bytes, 0, NULL);
    if (json)
      m = map_from_json (json, why, sizeof why);
    assert (m || json == NULL || why[0]);
    json_decref (json);
  }
  else {
    m = from_file (text, bytes, why, sizeof why);
    assert (m || why[0]);
  }
  if (m)
    check (m);
  map_free (m);
  free (text);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char *const texts[] = {
    "0{\"layout\": \"raid-x\", \"unit\": 262144, \"members\": [{\"uri\": "
    "\"nbd://a\"}, {\"uri\": \"nbd://b\"}, {\"uri\": \"nbd://c\"}]}",
    "0{\"name\": \"a\", \"layout\": \"raid-10\", \"n\": 2, \"groups\": 1, "
    "\"unit\": 4096, \"dup\": \"sync-client\", \"epoch\": 3, \"session\": "
    "\"s\", \"member_bytes\": 1048576, \"members\": [{\"uri\": "
    "\"nbd+unix:///?socket=s\", \"name\": \"m\", \"state\": \"out\"}, "
    "{\"uri\": \"nbds://b\", \"tokens\": {\"data\": \"1.a\", \"batch\": "
    "\"b\", \"intents\": \"c\"}}]}",
    "1{\"layout\": \"raid-1\", \"unit\": 4096, \"epoch\": 3, \"round\": 9, "
    "\"members\": [{\"uri\": \"nbd://a\", \"fence\": 2, \"lapse\": 1, "
    "\"round\": 7, \"known\": true}, {\"uri\": \"nbd://b\"}]}",
  };
  char many[4096];
  int n;

  for (unsigned i = 0; i < 3; i++)
    seed (texts[i], strlen (texts[i]));
  /* As many members as there can be. */
  n = snprintf (many, sizeof many,
                "0{\"layout\": \"raid-0\", \"groups\": 4, \"unit\": 4096, "
                "\"members\": [");
  for (unsigned i = 0; i < ARRAY_MEMBERS_MAX; i++)
    n += snprintf (many + n, sizeof many - (size_t) n, "%s{\"uri\":\"a://%u\"}",
                   i ? "," : "", i);
  n += snprintf (many + n, sizeof many - (size_t) n, "]}");
  seed (many, (size_t) n);
}
