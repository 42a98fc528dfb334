/* volumes-block.c: see volumes-block.h.
 *
 * An input to a volume marks its slot; next_done then lets the marked volumes ask the
 * array, and the array answer them, until neither has anything.  So a request that the
 * volume only has to look up goes on to the members in the same turn.
 *
 * The array's answers do not say whose they are: each request to it carries a `sent`, which
 * says so, in the place of its owner.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <bsd/sys/queue.h>

#include "base/spares.h"
#include "volumes-block.h"

struct volumes_slot {
  TAILQ_ENTRY (volumes_slot) link;
  TAILQ_ENTRY (volumes_slot) mark;
  bool marked;
  struct volume *volume;
  struct array_client *own; /* for its log and its root */
  unsigned clients;
  /* as `news` has told: */
  enum volume_state state;
  bool wants, waits;
};

/* The engine sees a client as an array_client. */
struct client {
  struct array_client *below;
  struct volumes_slot *slot; /* NULL: a client of the array */
  struct volume_client *of;
};

/* A request that the array has. */
struct sent {
  void *owner;
  struct array_client *client;
  struct volumes_slot *slot; /* whose; NULL: the engine's */
};

struct volumes_block {
  struct block block; /* the first */
  struct block *below;
  struct array *array;
  void (*news) (void *opaque);
  void *opaque;
  uint64_t losses;
  TAILQ_HEAD (, volumes_slot) slots, marked;
  struct spares sents, requests;
  struct array_request *done, **done_last;
};

static struct volumes_block *
self (const struct block *b)
{
  return (struct volumes_block *) b;
}

static void
mark (struct volumes_block *vb, struct volumes_slot *s)
{
  if (s->marked)
    return;
  s->marked = true;
  TAILQ_INSERT_TAIL (&vb->marked, s, mark);
}

/* ---- Requests ---- */

static void
submit_below (struct volumes_block *vb, struct array_request *r,
              struct volumes_slot *s, uint64_t now_ns)
{
  struct sent *x = spares_take (&vb->sents, sizeof *x);

  x->owner = r->owner;
  x->client = r->client;
  x->slot = s;
  r->owner = x;
  if (s == NULL && r->client)
    r->client = ((struct client *) r->client)->below;
  vb->below->ops->submit (vb->below, r, now_ns);
}

static void
submit (struct block *b, struct array_request *r, uint64_t now_ns)
{
  struct volumes_block *vb = self (b);
  struct client *c = (struct client *) r->client;
  struct volume_request *vr;

  if (c == NULL || c->slot == NULL) {
    submit_below (vb, r, NULL, now_ns);
    return;
  }
  vr = spares_take (&vb->requests, sizeof *vr);
  vr->op = r->op;
  vr->client = c->of;
  vr->flags = r->flags;
  vr->offset = r->offset;
  vr->length = r->length;
  vr->buf = r->buf;
  vr->owner = r;
  mark (vb, c->slot);
  volume_submit (c->slot->volume, vr, now_ns);
}

static void
done (struct volumes_block *vb, struct array_request *r)
{
  r->next = NULL;
  *vb->done_last = r;
  vb->done_last = &r->next;
}

/* An answer of the array. */
static void
answered (struct volumes_block *vb, struct array_request *r, uint64_t now_ns)
{
  struct sent *x = r->owner;
  struct volumes_slot *s = x->slot;

  r->owner = x->owner;
  r->client = x->client;
  spares_give (&vb->sents, x);
  if (s == NULL) {
    done (vb, r);
    return;
  }
  mark (vb, s);
  volume_io_done (s->volume, r, now_ns);
}

/* ---- The pump ---- */

static void
tell_news (struct volumes_block *vb, struct volumes_slot *s)
{
  uint32_t near;
  bool waits, wants = volume_wants (s->volume, &near, &waits) > 0;
  enum volume_state state = volume_state (s->volume);

  if (wants == s->wants && waits == s->waits && state == s->state)
    return;
  s->wants = wants;
  s->waits = waits;
  s->state = state;
  vb->news (vb->opaque);
}

static void
slot_take (struct volumes_block *vb, struct volumes_slot *s, uint64_t now_ns)
{
  struct array_request *io, *r;
  struct volume_request *vr;

  while ((io = volume_next_io (s->volume)))
    submit_below (vb, io, s, now_ns);
  while ((vr = volume_next_done (s->volume))) {
    r = vr->owner;
    r->error = vr->error;
    r->lost = false;
    r->extents = vr->extents;
    r->extents_count = vr->extents_count;
    spares_give (&vb->requests, vr);
    done (vb, r);
  }
  tell_news (vb, s);
}

/* Before any answer of the array that came after the loss. */
static void
take_losses (struct volumes_block *vb, uint64_t now_ns)
{
  uint64_t losses = array_losses (vb->array);
  struct volumes_slot *s;

  if (losses == vb->losses)
    return;
  vb->losses = losses;
  TAILQ_FOREACH (s, &vb->slots, link) {
    mark (vb, s);
    volume_lost (s->volume, now_ns);
  }
}

static void
pump (struct volumes_block *vb, uint64_t now_ns)
{
  struct array_request *r;
  struct volumes_slot *s;

  do {
    take_losses (vb, now_ns);
    while ((r = vb->below->ops->next_done (vb->below, now_ns)))
      answered (vb, r, now_ns);
    s = TAILQ_FIRST (&vb->marked);
    if (s) {
      TAILQ_REMOVE (&vb->marked, s, mark);
      s->marked = false;
      slot_take (vb, s, now_ns);
    }
  } while (s);
}

static struct array_request *
next_done (struct block *b, uint64_t now_ns)
{
  struct volumes_block *vb = self (b);
  struct array_request *r;

  if (vb->done == NULL)
    pump (vb, now_ns);
  r = vb->done;
  if (r) {
    vb->done = r->next;
    if (vb->done == NULL)
      vb->done_last = &vb->done;
    r->next = NULL;
  }
  return r;
}

/* ---- Clients ---- */

static struct client *
client_new (struct volumes_block *vb)
{
  struct client *c = alloc_zeroed (sizeof *c);

  c->below = vb->below->ops->client_open (vb->below);
  return c;
}

static struct array_client *
client_open (struct block *b)
{
  return (struct array_client *) client_new (self (b));
}

static void
client_close (struct block *b, struct array_client *client)
{
  struct volumes_block *vb = self (b);
  struct client *c = (struct client *) client;

  if (c->slot) {
    volume_client_close (c->slot->volume, c->of);
    c->slot->clients--;
  }
  vb->below->ops->client_close (vb->below, c->below);
  free (c);
}

struct array_client *
volumes_block_client (struct block *b, struct volumes_slot *s)
{
  struct client *c = client_new (self (b));

  c->slot = s;
  c->of = volume_client_open (s->volume, c->below);
  s->clients++;
  return (struct array_client *) c;
}

/* ---- Volumes ---- */

struct volumes_slot *
volumes_block_add (struct block *b, const struct volume_config *config)
{
  struct volumes_block *vb = self (b);
  struct volume_config with = *config;
  struct volumes_slot *s = alloc_zeroed (sizeof *s);

  s->own = vb->below->ops->client_open (vb->below);
  with.array = s->own;
  s->volume = volume_new (&with);
  if (s->volume == NULL) {
    vb->below->ops->client_close (vb->below, s->own);
    free (s);
    return NULL;
  }
  TAILQ_INSERT_TAIL (&vb->slots, s, link);
  return s;
}

void
volumes_block_drop (struct block *b, struct volumes_slot *s)
{
  struct volumes_block *vb = self (b);

  assert (s->clients == 0 && volume_idle (s->volume));
  if (s->marked)
    TAILQ_REMOVE (&vb->marked, s, mark);
  TAILQ_REMOVE (&vb->slots, s, link);
  volume_free (s->volume);
  vb->below->ops->client_close (vb->below, s->own);
  free (s);
}

struct volume *
volumes_block_volume (struct block *b, struct volumes_slot *s)
{
  mark (self (b), s);
  return s->volume;
}

uint64_t
volumes_block_losses (const struct block *b)
{
  return array_losses (self (b)->array);
}

/* ---- The rest of block.h ---- */

static uint64_t
size (const struct block *b)
{
  return self (b)->below->ops->size (self (b)->below);
}

/* A bad block of the array is one of a volume, too: segments are whole blocks. */
static void
limits (const struct block *b, uint32_t *minimum, uint32_t *preferred,
        uint32_t *maximum)
{
  self (b)->below->ops->limits (self (b)->below, minimum, preferred, maximum);
}

static struct array_io *
next_io (struct block *b)
{
  return self (b)->below->ops->next_io (self (b)->below);
}

static void
io_done (struct block *b, struct array_io *io, int error, uint64_t now_ns)
{
  self (b)->below->ops->io_done (self (b)->below, io, error, now_ns);
}

static void
heard (struct block *b, unsigned member, uint64_t heard_ns)
{
  self (b)->below->ops->heard (self (b)->below, member, heard_ns);
}

static void
lost (struct block *b, unsigned member, const char *reason, uint64_t now_ns)
{
  self (b)->below->ops->lost (self (b)->below, member, reason, now_ns);
}

static bool
next_notice (struct block *b, struct array_notice *n)
{
  return self (b)->below->ops->next_notice (self (b)->below, n);
}

static uint64_t
deadline (const struct block *b)
{
  uint64_t first = self (b)->below->ops->deadline (self (b)->below);
  const struct volumes_slot *s;

  TAILQ_FOREACH (s, &self (b)->slots, link)
    if (volume_deadline (s->volume) < first)
      first = volume_deadline (s->volume);
  return first;
}

static void
tick (struct block *b, uint64_t now_ns)
{
  struct volumes_block *vb = self (b);
  struct volumes_slot *s;

  vb->below->ops->tick (vb->below, now_ns);
  TAILQ_FOREACH (s, &vb->slots, link)
    if (volume_deadline (s->volume) <= now_ns) {
      mark (vb, s);
      volume_tick (s->volume, now_ns);
    }
}

static bool
awaited (const struct block *b)
{
  return self (b)->below->ops->awaited (self (b)->below);
}

static void
stop (struct block *b, int error, uint64_t now_ns)
{
  struct volumes_block *vb = self (b);
  struct volumes_slot *s;

  TAILQ_FOREACH (s, &vb->slots, link) {
    mark (vb, s);
    volume_stop (s->volume, error, now_ns);
  }
  vb->below->ops->stop (vb->below, error, now_ns);
}

static void
free_volumes (struct block *b)
{
  struct volumes_block *vb = self (b);
  struct volumes_slot *s;

  while ((s = TAILQ_FIRST (&vb->slots))) {
    s->clients = 0; /* the volume and the array free theirs */
    volumes_block_drop (b, s);
  }
  vb->below->ops->free (vb->below);
  spares_free (&vb->sents);
  spares_free (&vb->requests);
  free (vb);
}

static const struct block_ops ops = {
  .size = size,
  .limits = limits,
  .client_open = client_open,
  .client_close = client_close,
  .submit = submit,
  .next_done = next_done,
  .next_io = next_io,
  .io_done = io_done,
  .heard = heard,
  .lost = lost,
  .next_notice = next_notice,
  .deadline = deadline,
  .tick = tick,
  .awaited = awaited,
  .stop = stop,
  .free = free_volumes,
};

struct block *
volumes_block_new (struct block *below, struct array *array,
                   void (*news) (void *opaque), void *opaque)
{
  struct volumes_block *vb = calloc (1, sizeof *vb);

  if (vb == NULL)
    return NULL;
  vb->block.ops = &ops;
  vb->below = below;
  vb->array = array;
  vb->news = news;
  vb->opaque = opaque;
  TAILQ_INIT (&vb->slots);
  TAILQ_INIT (&vb->marked);
  vb->done_last = &vb->done;
  return &vb->block;
}
