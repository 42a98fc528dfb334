/* array-new.c: an engine is made, and freed. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "array-internal.h"

static bool
part_ok (const struct array_config *c)
{
  const struct layout *l = &c->layout;

  return c->part_offset <= l->size &&
         c->part_length <= l->size - c->part_offset &&
         c->part_offset % l->unit == 0 &&
         (c->part_length % l->unit == 0 ||
          c->part_length == l->size - c->part_offset);
}

static bool
config_ok (const struct array_config *c, char *why, size_t why_size)
{
  const struct layout *l = &c->layout;

  if (l->members < 1 || l->members > ARRAY_MEMBERS_MAX || l->size == 0)
    snprintf (why, why_size, "the array's layout is not valid");
  else if (c->dup != DUP_ASYNC_CLIENT && c->dup != DUP_SYNC_CLIENT)
    snprintf (why, why_size, "the array's duplication is not known");
  else if (l->cluster > 1 && c->dup != DUP_ASYNC_CLIENT)
    snprintf (why, why_size,
              "%s is always async-client: its images are clustered in the "
              "background",
              layout_name (l->kind));
  else if (c->image_buffer_bytes < KiB (64) ||
           c->image_buffer_bytes > IMAGE_BUFFER_BYTES_MAX)
    snprintf (why, why_size,
              "an image buffer of %llu bytes is not between "
              "64 KiB and 4 GiB",
              (unsigned long long) c->image_buffer_bytes);
  else if (c->leases && c->readonly)
    snprintf (why, why_size,
              "an array that is written by leases is not only read");
  else if (c->part_length > 0 && !c->leases)
    snprintf (why, why_size, "a part is a lease, and there are none");
  else if (c->part_length > 0 && !part_ok (c))
    snprintf (
      why, why_size,
      "the part of %llu bytes at %llu is not within the array, in whole "
      "stripe units of %u bytes",
      (unsigned long long) c->part_length, (unsigned long long) c->part_offset,
      l->unit);
  else
    return true;
  return false;
}

struct array *
array_new (const struct array_config *config, uint64_t now_ns, char *why,
           size_t why_size)
{
  const struct layout *l = &config->layout;
  struct images_config images = {
    .members = l->members,
    .bytes_max = config->image_buffer_bytes,
    .age_ms = config->image_age_ms,
    .batches = config->batches,
    .run_bytes = l->unit,
    .told = write_told,
  };
  struct array *a;

  if (!config_ok (config, why, why_size))
    return NULL;
  a = calloc (1, sizeof *a + l->members * sizeof a->member[0]);
  if (!a) {
    snprintf (why, why_size, "out of memory");
    return NULL;
  }
  a->config = *config;
  a->layout = &a->config.layout;
  a->now_ns = a->idle_since_ns = now_ns;
  if (l->cluster > 1) {
    images.run_base = l->stripes * l->unit;
    images.run_bytes = (uint64_t) l->cluster * l->unit;
  }
  images.owner = a;
  a->images = images_new (&images);
  if (!a->images) {
    snprintf (why, why_size, "out of memory");
    free (a);
    return NULL;
  }
  TAILQ_INIT (&a->requests);
  TAILQ_INIT (&a->runnable);
  TAILQ_INIT (&a->flushes);
  TAILQ_INIT (&a->ready);
  TAILQ_INIT (&a->space);
  TAILQ_INIT (&a->stalled);
  TAILQ_INIT (&a->held);
  TAILQ_INIT (&a->refused);
  TAILQ_INIT (&a->out);
  TAILQ_INIT (&a->sent);
  TAILQ_INIT (&a->orphans);
  TAILQ_INIT (&a->failed);
  TAILQ_INIT (&a->notices);
  TAILQ_INIT (&a->clients);
  a->own = array_client_open (a);
  a->former = array_client_open (a);
  a->done_last = &a->done_first;
  a->event = 1;
  a->trust_ns = a->others_ns = a->memory_ns = a->all_arrived = UINT64_MAX;
  for (unsigned i = 0; i < a->layout->members; i++) {
    TAILQ_INIT (&a->member[i].draining);
    a->member[i].state = config->states[i];
    a->member[i].loss.reach = UINT64_MAX;
    if (!state_takes_part (config->states[i])) {
      a->member[i].connection = CONNECTION_LOST;
      a->member[i].loss.reported = true;
    }
    a->member[i].counts = true;
    /* The first FLUSH goes to every member. */
    a->member[i].writes.loose = 1;
    timing_forget (a, i);
  }
  lease_init (a);
  clear_init (a);
  member_count (a);
  round_init (a);
  epoch_loss (a);
  return a;
}

void
array_free (struct array *a)
{
  struct array_client *c;
  struct notice *n;

  if (!a)
    return;
  assert (a->in_flight == 0);
  array_stop (a, ESHUTDOWN, a->now_ns);
  assert (a->requests_count == 0);
  while ((n = TAILQ_FIRST (&a->notices))) {
    TAILQ_REMOVE (&a->notices, n, link);
    free (n);
  }
  while ((c = TAILQ_FIRST (&a->clients))) {
    TAILQ_REMOVE (&a->clients, c, link);
    free (c);
  }
  spares_free (&a->spare_pieces);
  spares_free (&a->spare_aios);
  spares_free (&a->spare_reqs);
  clear_free (a);
  lease_free (a);
  images_free (a->images);
  free (a->ranges);
  free (a);
}
