/* sources.c: what a joining member asks of all its sources at once. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sources.h"

#define SILENT_MS 5000

/* Nobody cancels this: whoever has asked looks whether he still needs it. */
static bool
never (void *opaque)
{
  return false;
}

/* Set our bit of each extent that has a copy of what is dirty at a peer. */
static void
translate (const struct pull_order *o, unsigned peer, const uint8_t *bits,
           uint64_t bytes, struct intents *ours)
{
  const struct layout *l = &o->layout;

  for (uint64_t e = 0; e < bytes * 8; e++) {
    uint64_t at = e * EXTENT_BYTES, end = at + EXTENT_BYTES, offset;
    struct layout_piece p;
    uint32_t length;

    if (!(bits[e / 8] >> (e % 8) & 1))
      continue;
    if (end > l->member_bytes)
      end = l->member_bytes;
    for (; at < end; at += length) {
      if (layout_unmap (l, peer, at, &offset, &length) == -1)
        continue;
      layout_map (l, offset, length, &p);
      for (unsigned i = 0; i < p.copies; i++)
        if (p.copy[i].member == o->member)
          intents_set (ours, p.copy[i].offset / EXTENT_BYTES);
    }
  }
}

/* One peer's map. */
static int
intents_of (struct fetch *f, const struct pull_order *o, unsigned peer,
            struct intents *ours, struct fetch_fault *fault)
{
  struct fetch_command read = { .kind = FETCH_READ, .member = peer };
  uint64_t size;
  int r;

  if (fetch_open (f, peer, o->source[peer].uri, o->source[peer].intents,
                  fault) == -1)
    return -1;
  size = fetch_size (f, peer);
  if (size > 0 && size <= HEADER_BYTES)
    read.buf = malloc (size);
  if (read.buf == NULL) {
    fetch_blame (fault, peer, "there is no room for its intent map, of %" PRIu64
                 " bytes", size);
    return -1;
  }
  read.length = size;
  r = fetch_run (f, &read, never, NULL, fault);
  if (r == 0 && read.error) {
    fetch_blame (fault, peer, "its intent map can't be read: %s",
                 strerror (read.error));
    r = -1;
  }
  if (r == 0)
    translate (o, peer, read.buf, size, ours);
  free (read.buf);
  return r;
}

int
sources_intents (const struct pull_order *o, uint64_t data_bytes,
                 struct intents *ours, bool used[], struct fetch_fault *fault)
{
  struct fetch f = { .door = "intents", .silent_ms = SILENT_MS };
  unsigned first = o->member / o->layout.n * o->layout.n;
  int r = 0;

  if (intents_init (ours, intents_extents (data_bytes)) == -1) {
    fetch_blame (fault, o->member, "out of memory");
    return -1;
  }
  for (unsigned m = first; r == 0 && m < first + o->layout.n; m++)
    if (o->source[m].uri) {
      used[m] = true;
      r = intents_of (&f, o, m, ours, fault);
    }
  fetch_close_all (&f);
  if (r == -1)
    intents_free (ours);
  return r;
}

int
sources_flush (struct fetch *f, const bool used[],
               bool (*cancelled) (void *), void *opaque,
               struct fetch_fault *fault)
{
  struct fetch_command flush[ARRAY_MEMBERS_MAX], *list = NULL;
  int r;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    if (!used[m])
      continue;
    flush[m] = (struct fetch_command) {
      .next = list, .kind = FETCH_FLUSH, .member = m
    };
    list = &flush[m];
  }
  r = fetch_run (f, list, cancelled, opaque, fault);
  if (r != 0)
    return r;
  for (; list; list = list->next)
    if (list->error) {
      fetch_blame (fault, list->member, "flushing failed: %s",
                   strerror (list->error));
      fetch_close (f, list->member);
      return -1;
    }
  return 0;
}
