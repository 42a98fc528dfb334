/* images-send.c: gathers images for a member into one request.
 *
 * Gathering begins at the oldest eligible image that is not blocked by a flying
 * one, and goes on from there in offset order, once around.  A long image
 * travels alone, from its own block.  Short ones are gathered into one block:
 * as a plain write when they are a single run, else as the records of a batch,
 * neighbours in one record.  The gathered block replaces the images' own, which
 * are freed at once: a payload is held once.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "format/batch.h"
#include "images-internal.h"

/* Is it to be gathered with others? */
static bool
gathers (const struct image *e)
{
  return e->kind != IMAGE_WRITE || e->length < IMAGE_RUN_BYTES;
}

static bool
sendable (const struct image_member *m, const struct image *e)
{
  return image_eligible (m, e) && !image_blocked (m, e);
}

static bool
joins (const struct image *e, const struct image *next)
{
  return e && e->kind == next->kind && e->offset + e->length == next->offset;
}

static struct image *
pick (struct image_member *m)
{
  struct image *e;

  TAILQ_FOREACH (e, &m->due, by_due)
    if (!image_blocked (m, e))
      return e;
  TAILQ_FOREACH (e, &m->aged, by_age) {
    if (e->sequence > m->limit)
      return NULL;
    if (!e->due && !image_blocked (m, e))
      return e;
  }
  return NULL;
}

/* The first image of the run that `e` is in the middle of. */
static struct image *
run_start (struct image_member *m, struct image *e)
{
  uint64_t bytes = e->length;
  uint64_t most = e->kind == IMAGE_WRITE ? BATCH_BYTES_MAX / 2
                                         : ZERO_BYTES_MAX / 2;
  struct image *o;

  while ((o = RB_PREV (image_tree, &m->pending, e)) && joins (o, e) &&
         gathers (o) && sendable (m, o) && bytes + o->length <= most) {
    bytes += o->length;
    e = o;
  }
  return e;
}

/* Link what goes together, from `e` on, into run.  Nothing is moved yet.
 * Returns the number of records.
 */
static unsigned
collect (const struct images *b, struct image_member *m, struct image *e,
         struct image_run *run)
{
  struct image *last = NULL, *start = e, *next;
  size_t bytes = batch_bytes (NULL, 0), cost;
  uint64_t record = 0; /* bytes of the array in the last record */
  unsigned records = 0, passed = 0;

  for (; e; e = next) {
    bool joined = joins (last, e);

    next = RB_NEXT (image_tree, &m->pending, e);
    if (!next)
      next = RB_MIN (image_tree, &m->pending); /* once around */
    if (next == start)
      next = NULL;
    if (last && !joined &&
        (!b->config.batches || (records == 1 && last->kind == IMAGE_WRITE &&
                                bytes >= IMAGE_RUN_BYTES + BATCH_RECORD_BYTES)))
      break; /* a long run is a write of its own */
    if (!gathers (e) || !sendable (m, e)) {
      if (++passed > PASSED_MAX)
        break;
      continue;
    }
    cost = (joined ? 0 : BATCH_RECORD_BYTES) +
           (e->kind == IMAGE_WRITE ? e->length : 0);
    if (records + !joined > BATCH_RECORDS_MAX ||
        bytes + cost > BATCH_BYTES_MAX ||
        (joined && record + e->length > ZERO_BYTES_MAX))
      break;
    bytes += cost;
    record = e->length + (joined ? record : 0);
    records += !joined;
    e->next = NULL;
    *run->last = e;
    run->last = &e->next;
    last = e;
  }
  return records;
}

/* The images of the run get their bytes from the gathered block. */
static void
move_payload (struct images *b, struct image *e, struct payload *block,
              size_t at)
{
  memcpy (block->data + at, e->payload->data + e->at, e->length);
  image_payload_unref (b, e->payload);
  block->references++;
  e->payload = block;
  e->at = at;
}

static bool
make_write (struct images *b, struct image_run *run)
{
  struct image *e = run->first;
  size_t at = 0;

  run->kind = e->kind == IMAGE_WRITE ? RUN_WRITE : RUN_ZERO;
  run->may_trim = e->kind == IMAGE_TRIM;
  run->offset = e->offset;
  run->length = 0;
  for (; e; e = e->next)
    run->length += e->length;
  e = run->first;
  if (run->kind == RUN_ZERO)
    return true;
  if (!e->next) {
    run->buf = e->payload->data + e->at;
    return true;
  }
  run->payload = image_payload_new (b, run->length);
  if (!run->payload)
    return false;
  run->buf = run->payload->data;
  for (e = run->first; e; at += e->length, e = e->next)
    move_payload (b, e, run->payload, at);
  return true;
}

static bool
make_batch (struct images *b, struct image_run *run)
{
  struct batch_record records[BATCH_RECORDS_MAX], *r = records;
  struct image *e, *last = NULL;
  unsigned count = 0;
  size_t at;

  for (e = run->first; e; last = e, e = e->next) {
    if (joins (last, e)) {
      r->length += e->length;
      continue;
    }
    assert (count < BATCH_RECORDS_MAX);
    r = &records[count++];
    r->kind = e->kind == IMAGE_WRITE  ? BATCH_WRITE
              : e->kind == IMAGE_ZERO ? BATCH_ZERO
                                      : BATCH_TRIM;
    r->offset = e->offset;
    r->length = e->length;
    r->payload = NULL; /* move_payload puts it into its place */
  }
  run->length = batch_bytes (records, count);
  run->payload = image_payload_new (b, run->length);
  if (!run->payload)
    return false;
  run->kind = RUN_BATCH;
  run->offset = 0;
  run->buf = run->payload->data;
  batch_encode (records, count, run->buf);
  at = batch_payload_at (count);
  for (e = run->first; e; e = e->next)
    if (e->kind == IMAGE_WRITE) {
      move_payload (b, e, run->payload, at);
      at += e->length;
    }
  assert (at == run->length);
  b->batches++;
  return true;
}

struct image_run *
images_next (struct images *b, uint64_t now_ns)
{
  struct image_member *m;
  struct image *e = NULL;
  struct image_run *run;
  unsigned records = 1;

  while (!e && (m = TAILQ_FIRST (&b->ready))) {
    TAILQ_REMOVE (&b->ready, m, ready_link);
    m->ready = false;
    /* images_answered and images_pause look again at a member that is passed by. */
    if (!m->paused && m->flying_weight < FLYING_BYTES_MAX &&
        m->batches < FLYING_BATCHES_MAX)
      e = pick (m);
  }
  if (!e)
    return NULL;
  run = alloc_zeroed (sizeof *run);
  run->member = m - b->member;
  run->drops = m->drops;
  run->last = &run->first;
  if (gathers (e))
    records = collect (b, m, run_start (m, e), run);
  else {
    e->next = NULL;
    run->first = e;
  }
  if (!(records > 1 ? make_batch (b, run) : make_write (b, run))) {
    /* There is no memory for a block of several: one is sent from its own. */
    run->first->next = NULL;
    make_write (b, run);
  }
  for (e = run->first; e; e = e->next) {
    image_take (b, m, e);
    e->flying = true;
    if (e->sent_ns == 0)
      e->sent_ns = now_ns;
    if (RB_INSERT (image_tree, &m->flying, e))
      abort (); /* never: it was not blocked */
    run->fua |= e->fua;
    run->weight += image_weight (e);
  }
  m->flying_weight += run->weight;
  m->runs++;
  m->batches += run->kind == RUN_BATCH;
  images_look (b, m); /* behind the others */
  return run;
}

bool
image_run_range (const struct image_run *run, const struct image **at,
                 uint64_t *offset, uint64_t *length)
{
  *at = *at ? (*at)->next : run->first;
  if (!*at)
    return false;
  *offset = (*at)->offset;
  *length = (*at)->length;
  return true;
}

void
images_answered (struct images *b, struct image_run *run, bool written)
{
  struct image_member *m = &b->member[run->member];
  struct image *e, *next;

  assert (m->runs > 0 && m->flying_weight >= run->weight);
  m->runs--;
  m->batches -= run->kind == RUN_BATCH;
  m->flying_weight -= run->weight;
  for (e = run->first; e; e = next) {
    next = e->next;
    RB_REMOVE (image_tree, &m->flying, e);
    e->flying = false;
    if (written || run->drops != m->drops)
      image_end (b, e, written);
    else
      image_add_back (b, m, e);
  }
  image_payload_unref (b, run->payload);
  free (run);
  images_look (b, m);
}

/* For tests: all that is promised at any time. */
static void
check_tree (const struct image_member *m, bool flying, uint64_t *fresh,
            uint64_t *weight, uint64_t *count)
{
  const struct image_tree *tree = flying ? &m->flying : &m->pending;
  uint64_t end = 0;
  struct image *e;

  RB_FOREACH (e, image_tree, (struct image_tree *) tree) {
    assert (e->offset >= end && e->length > 0);
    end = e->offset + e->length;
    assert (e->flying == flying);
    assert ((e->payload != NULL) == (e->kind == IMAGE_WRITE));
    assert (!e->payload || e->at + e->length <= e->payload->bytes);
    assert (m->background ? !e->generation : e->generation->images > 0);
    assert (!e->waiter || e->due);
    if (flying)
      *weight += image_weight (e);
    else if (!image_eligible (m, e))
      *fresh += image_weight (e);
    ++*count;
  }
}

void
images_check (const struct images *b)
{
  const struct generation *g;
  const struct image_member *m;
  const struct image *e;
  uint64_t fresh = 0, count = 0, counted = 0, number = 0, age_ns = 0;

  for (unsigned i = 0; i < b->config.members; i++) {
    uint64_t before = count, fresh_here = 0, weight = 0;
    uint64_t due = 0, aged = 0, last = 0;

    m = &b->member[i];
    check_tree (m, false, &fresh_here, &weight, &count);
    TAILQ_FOREACH (e, &m->aged, by_age) {
      assert (e->sequence >= last && e->sequence <= b->sequence);
      last = e->sequence;
      due += e->due;
      aged++;
    }
    assert (aged == count - before);
    TAILQ_FOREACH (e, &m->due, by_due) {
      assert (e->due);
      due--;
    }
    assert (due == 0);
    check_tree (m, true, &fresh_here, &weight, &count);
    assert (m->fresh == fresh_here && m->flying_weight == weight);
    if (!m->background)
      counted += count - before;
    assert (fresh_here == 0 || m->armed);
    assert (!m->gone || aged == 0);
    assert ((m->runs == 0) == RB_EMPTY (&m->flying));
    fresh += fresh_here;
  }
  assert (fresh == b->fresh && count == b->count);
  TAILQ_FOREACH (g, &b->generations, link) {
    uint64_t of = 0;

    for (unsigned i = 0; i < b->config.members; i++)
      of += g->of[i];
    assert (of == g->images);
    assert (g->number > number);
    assert (g->images > 0 || !TAILQ_NEXT (g, link));
    number = g->number;
    counted -= g->images;
  }
  assert (counted == 0);
  TAILQ_FOREACH (m, &b->armed, armed_link) {
    assert (m->armed && m->age_ns >= age_ns);
    age_ns = m->age_ns;
  }
  assert (b->bytes >= b->room + count * sizeof (struct image));
}
