/* holder.c: see holder.h.
 *
 * Inputs only note their facts; entry_due_ms derives from them when a message is due, and
 * message_make writes it.
 *
 * A message that weftd refuses is sent again like one without an answer: weftd may have
 * carried it out at an earlier try.
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/sys/queue.h>

#include "base/spans.h"
#include "base/spares.h"
#include "holder.h"

#define RETRY_MS 500    /* after a message without an answer, or refused */
#define FIGURES_MS 1000 /* the interval of a message with figures alone */
#define WAITING_MS 1000 /* requests wait, and there was no space */
#define WANTING_MS 5000 /* there was no space, and nobody waits */
#define ORDERS_MAX 64   /* that are known and not carried out */

struct runs {
  struct volume_run *run;
  unsigned count, room;
};

struct holder_volume {
  TAILQ_ENTRY (holder_volume) link;
  uint8_t uuid[16];
  uint64_t number; /* its owner in `owned` */
  struct holder_facts facts;
  struct holder_said said; /* the last that weftd has heard */
  bool told;               /* facts are there */
  bool heard;              /* weftd has heard something */
  uint64_t said_ms;
  bool vain; /* weftd had less than was asked for, ... */
  uint64_t vain_ms;
  uint32_t asked; /* ... by the message under way */
  struct runs give;
};

struct holder {
  uint32_t first, end;
  TAILQ_HEAD (, holder_volume) volumes;
  uint64_t volumes_ever;
  struct spans owned; /* segments */
  bool formatted, formatted_said;
  uint64_t taken; /* the highest order */
  struct holder_order order[ORDERS_MAX];
  unsigned orders;
  struct holder_done *done;
  unsigned dones, dones_room;
  struct holder_message *message;
  bool made; /* there is a message that is not answered by a 200 */
  bool under_way;
  uint64_t number; /* that was answered */
  uint64_t retry_ms;
};

struct holder *
holder_new (uint32_t first, uint32_t end)
{
  struct holder *h = calloc (1, sizeof *h);

  if (!h)
    return NULL;
  h->message = calloc (1, sizeof *h->message);
  if (!h->message) {
    free (h);
    return NULL;
  }
  h->first = first;
  h->end = end;
  TAILQ_INIT (&h->volumes);
  return h;
}

static void
message_free (struct holder *h)
{
  for (unsigned i = 0; i < h->message->entries; i++)
    free (h->message->entry[i].give);
  memset (h->message, 0, sizeof *h->message);
  h->made = h->under_way = false;
}

void
holder_free (struct holder *h)
{
  struct holder_volume *v;

  if (!h)
    return;
  while ((v = TAILQ_FIRST (&h->volumes)))
    holder_close (h, v);
  message_free (h);
  spans_free (&h->owned);
  free (h->message);
  free (h->done);
  free (h);
}

/* ---- Volumes ---- */

static bool
same (const struct holder_said *a, const struct holder_said *b, bool figures)
{
  bool same = a->made == b->made && a->size == b->size && a->why == b->why;

  return same &&
         (!figures ||
          (a->mapped == b->mapped && a->log == b->log && a->spare == b->spare &&
           a->clients == b->clients && a->waiting == b->waiting));
}

static void
runs_add (struct runs *r, const struct volume_run *run)
{
  if (r->count == r->room) {
    r->room = 2 * r->room + 8;
    r->run = realloc (r->run, r->room * sizeof *r->run);
    if (!r->run)
      abort ();
  }
  r->run[r->count++] = *run;
}

static void
owner_set (struct holder *h, const struct volume_run *run, uint64_t owner)
{
  spans_set (&h->owned, run->first, (uint64_t) run->first + run->count, owner);
}

/* Is weftd still to hear that some of these segments are given back? */
static bool
are_given (const struct holder *h, const struct volume_run *run)
{
  const struct holder_volume *v;

  TAILQ_FOREACH (v, &h->volumes, link)
    for (unsigned i = 0; i < v->give.count; i++)
      if (run->first < v->give.run[i].first + v->give.run[i].count &&
          v->give.run[i].first < run->first + run->count)
        return true;
  return false;
}

/* The entry of this volume in the message that weftd has not answered; NULL: none. */
static const struct holder_entry *
entry_of (const struct holder *h, const uint8_t uuid[16])
{
  for (unsigned i = 0; h->made && i < h->message->entries; i++)
    if (memcmp (h->message->entry[i].uuid, uuid, 16) == 0)
      return &h->message->entry[i];
  return NULL;
}

/* Was the volume closed before weftd has heard that it gives some of these segments back? */
static bool
are_leaving (const struct holder *h, const uint8_t uuid[16],
             const struct volume_run *run)
{
  const struct holder_entry *e = entry_of (h, uuid);

  for (unsigned i = 0; e && i < e->gives; i++)
    if (run->first < e->give[i].first + e->give[i].count &&
        e->give[i].first < run->first + run->count)
      return true;
  return false;
}

/* NULL, or why these segments cannot be a volume's. */
static const char *
run_refused (const struct holder *h, const struct volume_run *run)
{
  if (run->count == 0 || run->first < h->first || run->first >= h->end ||
      run->count > h->end - run->first)
    return "segments were granted to it that are not of the pool";
  if (spans_meet (&h->owned, run->first, (uint64_t) run->first + run->count))
    return "segments were granted to it that are in use";
  if (are_given (h, run))
    return "segments were granted to it that are being given back";
  return NULL;
}

struct holder_volume *
holder_open (struct holder *h, const uint8_t uuid[16],
             const struct volume_run *runs, unsigned count, const char **why)
{
  struct holder_volume *v;

  for (unsigned i = 0; i < count; i++) {
    *why = run_refused (h, &runs[i]);
    if (!*why && i > 0 && runs[i].first < runs[i - 1].first + runs[i - 1].count)
      *why = "segments were granted to it twice";
    if (!*why && are_leaving (h, uuid, &runs[i]))
      *why = "segments of it are being given back: open it again";
    if (*why)
      return NULL;
  }
  v = alloc_zeroed (sizeof *v);
  memcpy (v->uuid, uuid, 16);
  v->number = ++h->volumes_ever;
  for (unsigned i = 0; i < count; i++)
    owner_set (h, &runs[i], v->number);
  TAILQ_INSERT_TAIL (&h->volumes, v, link);
  return v;
}

void
holder_leave (struct holder *h, struct holder_volume *v)
{
  (void) h;
  v->heard = false;
}

bool
holder_settled (const struct holder *h, const struct holder_volume *v)
{
  return v->heard && v->give.count == 0 && !entry_of (h, v->uuid) &&
         same (&v->facts.said, &v->said, true);
}

struct volume_run *
holder_runs (const struct holder *h, const struct holder_volume *v,
             unsigned *count)
{
  struct volume_run *runs = alloc_zeroed ((h->owned.count + 1) * sizeof *runs);

  *count = 0;
  for (unsigned i = 0; i < h->owned.count; i++) {
    const struct span *s = &h->owned.span[i];

    if (s->owner == v->number)
      runs[(*count)++] = (struct volume_run) { (uint32_t) s->start,
                                               (uint32_t) (s->end - s->start) };
  }
  return runs;
}

void
holder_close (struct holder *h, struct holder_volume *v)
{
  for (unsigned i = h->owned.count; i-- > 0;)
    if (h->owned.span[i].owner == v->number)
      spans_set (&h->owned, h->owned.span[i].start, h->owned.span[i].end, 0);
  TAILQ_REMOVE (&h->volumes, v, link);
  free (v->give.run);
  free (v);
}

struct holder_volume *
holder_find (struct holder *h, const uint8_t uuid[16])
{
  struct holder_volume *v;

  TAILQ_FOREACH (v, &h->volumes, link)
    if (memcmp (v->uuid, uuid, 16) == 0)
      return v;
  return NULL;
}

void
holder_tell (struct holder *h, struct holder_volume *v,
             const struct holder_facts *facts)
{
  (void) h;
  v->facts = *facts;
  v->told = true;
}

void
holder_give (struct holder *h, struct holder_volume *v,
             const struct volume_run *runs, unsigned count)
{
  for (unsigned i = 0; i < count; i++) {
    owner_set (h, &runs[i], 0);
    runs_add (&v->give, &runs[i]);
  }
}

void
holder_formatted (struct holder *h)
{
  h->formatted = true;
}

/* ---- Orders ---- */

void
holder_ordered (struct holder *h, const struct holder_order *orders,
                unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    if (orders[i].number > h->taken && h->orders < ORDERS_MAX) {
      h->order[h->orders++] = orders[i];
      h->taken = orders[i].number;
    }
}

bool
holder_next_order (struct holder *h, struct holder_order *o)
{
  if (h->orders == 0)
    return false;
  *o = h->order[0];
  memmove (&h->order[0], &h->order[1], --h->orders * sizeof h->order[0]);
  return true;
}

void
holder_did (struct holder *h, uint64_t number, const char *error)
{
  struct holder_done *d;

  if (h->dones == h->dones_room) {
    h->dones_room = 2 * h->dones_room + 8;
    h->done = realloc (h->done, h->dones_room * sizeof h->done[0]);
    if (!h->done)
      abort ();
  }
  d = &h->done[h->dones++];
  d->number = number;
  snprintf (d->error, sizeof d->error, "%s", error ? error : "");
}

/* ---- Messages ---- */

static uint64_t
ask_due_ms (const struct holder_volume *v)
{
  if (v->facts.want == 0)
    return UINT64_MAX;
  if (!v->vain)
    return 0;
  return v->vain_ms +
         (v->facts.waits || v->facts.log > 0 ? WAITING_MS : WANTING_MS);
}

static uint64_t
say_due_ms (const struct holder_volume *v)
{
  if (!v->heard || !same (&v->facts.said, &v->said, false))
    return 0;
  return same (&v->facts.said, &v->said, true) ? UINT64_MAX
                                               : v->said_ms + FIGURES_MS;
}

static uint64_t
entry_due_ms (const struct holder_volume *v)
{
  uint64_t ask = ask_due_ms (v), say = say_due_ms (v);

  if (!v->told)
    return UINT64_MAX;
  if (v->give.count > 0)
    return 0;
  return ask < say ? ask : say;
}

uint64_t
holder_due_ms (const struct holder *h)
{
  const struct holder_volume *v;
  uint64_t due_ms = UINT64_MAX;

  if (h->under_way)
    return UINT64_MAX;
  if (h->made || h->dones > 0 || (h->formatted && !h->formatted_said))
    due_ms = 0;
  TAILQ_FOREACH (v, &h->volumes, link)
    if (entry_due_ms (v) < due_ms)
      due_ms = entry_due_ms (v);
  return due_ms < h->retry_ms ? h->retry_ms : due_ms;
}

static void
entry_make (struct holder_entry *e, struct holder_volume *v, unsigned room,
            uint64_t now_ms)
{
  memcpy (e->uuid, v->uuid, 16);
  e->says = !v->heard || !same (&v->facts.said, &v->said, true);
  e->said = v->facts.said;
  v->asked = 0;
  if (ask_due_ms (v) <= now_ms) {
    e->want = v->asked = v->facts.want;
    e->log = v->facts.log;
    e->near = v->facts.near;
  }
  e->gives = v->give.count < room ? v->give.count : room;
  if (e->gives == 0)
    return;
  e->give = malloc (e->gives * sizeof e->give[0]);
  if (!e->give)
    abort ();
  memcpy (e->give, v->give.run, e->gives * sizeof e->give[0]);
  v->give.count -= e->gives;
  memmove (v->give.run, v->give.run + e->gives,
           v->give.count * sizeof v->give.run[0]);
}

static void
message_make (struct holder *h, uint64_t now_ms)
{
  struct holder_message *m = h->message;
  struct holder_volume *v;
  unsigned gives = 0;

  h->made = true;
  m->number = h->number + 1;
  m->formatted = h->formatted && !h->formatted_said;
  TAILQ_FOREACH (v, &h->volumes, link) {
    if (m->entries == HOLDER_VOLUMES_MAX)
      break;
    if (entry_due_ms (v) > now_ms)
      continue;
    entry_make (&m->entry[m->entries], v, HOLDER_GIVES_MAX - gives, now_ms);
    gives += m->entry[m->entries++].gives;
  }
  m->dones = h->dones < HOLDER_DONE_MAX ? h->dones : HOLDER_DONE_MAX;
  if (m->dones == 0)
    return;
  memcpy (m->done, h->done, m->dones * sizeof m->done[0]);
  h->dones -= m->dones;
  memmove (h->done, h->done + m->dones, h->dones * sizeof h->done[0]);
}

const struct holder_message *
holder_next (struct holder *h, uint64_t now_ms)
{
  if (holder_due_ms (h) > now_ms)
    return NULL;
  if (!h->made)
    message_make (h, now_ms);
  h->under_way = true;
  return h->message;
}

bool
holder_granted (struct holder *h, struct holder_volume *v,
                const struct volume_run *run)
{
  if (!h->under_way || run_refused (h, run))
    return false;
  owner_set (h, run, v->number);
  v->asked = v->asked > run->count ? v->asked - run->count : 0;
  return true;
}

/* Weftd has it. */
static void
entry_heard (struct holder *h, const struct holder_entry *e, uint64_t now_ms)
{
  struct holder_volume *v = holder_find (h, e->uuid);

  if (!v)
    return; /* it was closed meanwhile */
  if (e->says) {
    v->heard = true;
    v->said = e->said;
    v->said_ms = now_ms;
  }
  if (e->want > 0) {
    v->vain = v->asked > 0;
    v->vain_ms = now_ms;
  }
}

void
holder_answered (struct holder *h, int status, uint64_t now_ms)
{
  struct holder_message *m = h->message;

  assert (h->under_way);
  h->under_way = false;
  h->retry_ms = status == 200 ? 0 : now_ms + RETRY_MS;
  if (status != 200)
    return; /* it is sent again */
  h->number = m->number;
  h->formatted_said |= m->formatted;
  for (unsigned i = 0; i < m->entries; i++)
    entry_heard (h, &m->entry[i], now_ms);
  message_free (h);
}

uint64_t
holder_number (const struct holder *h)
{
  return h->number;
}

void
holder_check (const struct holder *h)
{
  const struct holder_volume *v;

  spans_check (&h->owned);
  assert (h->made || (!h->under_way && h->message->entries == 0));
  assert (!h->made || h->message->number == h->number + 1);
  for (unsigned i = 0; i < h->owned.count; i++)
    assert (h->owned.span[i].start >= h->first &&
            h->owned.span[i].end <= h->end);
  TAILQ_FOREACH (v, &h->volumes, link)
    for (unsigned i = 0; i < v->give.count; i++)
      assert (!spans_has (
        &h->owned, v->give.run[i].first,
        (uint64_t) v->give.run[i].first + v->give.run[i].count, v->number));
}
