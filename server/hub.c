/* hub.c: see hub.h. */

#include <config.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "alloc.h"
#include "common/clock.h"
#include "hub.h"

struct event {
  uint64_t id;
  char *text;
};

struct hub {
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct event events[EVENTS_MAX]; /* at id mod EVENTS_MAX */
  uint64_t first, last;            /* ids kept; last 0: none */
  uint64_t load_seq;
  char *load;
  atomic_uint listeners;
  bool closed;
};

struct hub *
hub_new (void)
{
  struct hub *h = alloc_zeroed (sizeof *h);

  pthread_mutex_init (&h->lock, NULL);
  clock_condition (&h->more);
  return h;
}

void
hub_free (struct hub *h)
{
  if (h == NULL)
    return;
  /* Ids begin at 1 and grow: those beyond the last one were never used. */
  for (size_t i = 0; i < EVENTS_MAX && i <= h->last; i++)
    free (h->events[i].text);
  free (h->load);
  pthread_cond_destroy (&h->more);
  pthread_mutex_destroy (&h->lock);
  free (h);
}

void
hub_publish (struct hub *h, uint64_t id, const char *name, const char *data)
{
  struct event *e = &h->events[id % EVENTS_MAX];
  char *text;

  text = alloc_print ("id: %" PRIu64 "\nevent: %s\ndata: %s\n\n", id, name,
                      data);
  pthread_mutex_lock (&h->lock);
  /* A gap can only come from a database that was tampered with. */
  if (h->last == 0 || id != h->last + 1)
    h->first = id;
  free (e->text);
  e->text = text;
  e->id = id;
  h->last = id;
  if (h->last - h->first >= EVENTS_MAX)
    h->first = h->last - EVENTS_MAX + 1;
  pthread_cond_broadcast (&h->more);
  pthread_mutex_unlock (&h->lock);
}

void
hub_load (struct hub *h, const char *data)
{
  char *text;

  text = alloc_print ("event: load\ndata: %s\n\n", data);
  pthread_mutex_lock (&h->lock);
  free (h->load);
  h->load = text;
  h->load_seq++;
  pthread_cond_broadcast (&h->more);
  pthread_mutex_unlock (&h->lock);
}

void
hub_close (struct hub *h)
{
  pthread_mutex_lock (&h->lock);
  h->closed = true;
  pthread_cond_broadcast (&h->more);
  pthread_mutex_unlock (&h->lock);
}

static bool
has (const struct hub *h, uint64_t id)
{
  return h->last == 0 ? id == 0 : id + 1 >= h->first && id <= h->last;
}

bool
hub_has (struct hub *h, uint64_t id)
{
  bool r;

  pthread_mutex_lock (&h->lock);
  r = has (h, id);
  pthread_mutex_unlock (&h->lock);
  return r;
}

unsigned
hub_listeners (struct hub *h)
{
  return h->listeners;
}

void
hub_listen (struct hub *h, int change)
{
  h->listeners += (unsigned) change;
}

static enum hub_result
take (struct hub *h, struct hub_cursor *cursor, char **text)
{
  const char *found;

  if (h->closed)
    return HUB_CLOSED;
  if (h->last > cursor->id) {
    if (!has (h, cursor->id))
      return HUB_BEHIND;
    cursor->id++;
    found = h->events[cursor->id % EVENTS_MAX].text;
  }
  else if (h->load_seq > cursor->load) {
    cursor->load = h->load_seq;
    found = h->load;
  }
  else
    return HUB_IDLE;
  *text = alloc_copy (found);
  return HUB_EVENT;
}

enum hub_result
hub_next (struct hub *h, struct hub_cursor *cursor, char **text,
          unsigned wait_ms)
{
  uint64_t until_ms = clock_ms () + wait_ms;
  enum hub_result r;

  pthread_mutex_lock (&h->lock);
  while ((r = take (h, cursor, text)) == HUB_IDLE)
    if (!clock_wait_ms (&h->more, &h->lock, until_ms)) {
      r = take (h, cursor, text);
      break;
    }
  pthread_mutex_unlock (&h->lock);
  return r;
}
