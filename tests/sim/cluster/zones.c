/* zones.c: the contents that may be read of grains that several hosts write (zones.h). */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "zones.h"

#define NEVER UINT64_MAX

struct value {
  TAILQ_ENTRY (value) entry; /* in the grain's `values` */
  LIST_ENTRY (value) link; /* in the grain's `loose`, while it is not flushed */
  uint64_t version;
  bool zeroes;
  uint64_t session;
  uint64_t begun; /* its write */
  uint64_t done;  /* it has taken effect by then, whatever was lost since; but
                         an unanswered one is written again */
  uint64_t low, high; /* its zone since the grain fell last */
  uint64_t highest;   /* no `high` of its own or of an older one is above */
  uint64_t closed;    /* it has taken effect by then, or never will */
  bool answered, flushed;
  bool fallen; /* some member has lost it */
  /* Since when a FLUSH of each host speaks for it; 0: none does. */
  uint64_t spoken[ZONES_HOSTS];
};
struct grain {
  TAILQ_HEAD (values, value) values; /* the most recently begun are first */
  /* Values that no FLUSH has promised: few of many, if a request is long under way and
   * nothing can be forgotten.
   */
  LIST_HEAD (, value) loose;
  uint64_t promised; /* values overwritten before this never come back */
  uint64_t fell;     /* the moment before the first that counts */
  uint64_t settled;  /* writes begun before have a `low` or are closed */
};
struct zones {
  unsigned grains;
  struct grain *grain;
  uint64_t told[ZONES_HOSTS]; /* up to here a FLUSH that failed has told */
  uint64_t moment;            /* the newest that was heard of */
};

static void
lower_to (uint64_t *to, uint64_t moment)
{
  if (*to > moment)
    *to = moment;
}

static void
raise_to (uint64_t *to, uint64_t moment)
{
  if (*to < moment)
    *to = moment;
}

static void
note (struct zones *z, uint64_t moment)
{
  raise_to (&z->moment, moment);
}

static struct value *
add (struct grain *g, uint64_t version)
{
  struct value *v = calloc (1, sizeof *v), *newest = TAILQ_FIRST (&g->values);

  if (v == NULL)
    abort ();
  *v = (struct value) { .version = version,
                        .done = NEVER,
                        .low = NEVER,
                        .highest = newest ? newest->highest : 0,
                        .closed = NEVER };
  TAILQ_INSERT_HEAD (&g->values, v, entry);
  LIST_INSERT_HEAD (&g->loose, v, link);
  return v;
}

struct zones *
zones_new (unsigned grains)
{
  struct zones *z = calloc (1, sizeof *z);

  if (z == NULL || (z->grain = calloc (grains, sizeof *z->grain)) == NULL)
    abort ();
  z->grains = grains;
  for (unsigned i = 0; i < grains; i++) {
    struct value *v;

    TAILQ_INIT (&z->grain[i].values);
    v = add (&z->grain[i], 0);
    v->zeroes = true;
    v->done = v->low = 0;
    v->answered = true;
  }
  return z;
}

void
zones_free (struct zones *z)
{
  struct value *v;

  for (unsigned i = 0; i < z->grains; i++)
    while ((v = TAILQ_FIRST (&z->grain[i].values)) != NULL) {
      TAILQ_REMOVE (&z->grain[i].values, v, entry);
      free (v);
    }
  free (z->grain);
  free (z);
}

static struct value *
find (const struct grain *g, uint64_t version)
{
  struct value *v;

  TAILQ_FOREACH (v, &g->values, entry)
    if (v->version == version)
      break;
  return v;
}

static void
raise_high (struct value *v, uint64_t moment)
{
  raise_to (&v->high, moment);
  for (; v; v = TAILQ_PREV (v, values, entry))
    raise_to (&v->highest, moment);
}

void
zones_write (struct zones *z, unsigned g, uint64_t version, bool zeroes,
             uint64_t session, uint64_t moment)
{
  struct value *v = add (&z->grain[g], version);

  note (z, moment);
  v->zeroes = zeroes;
  v->session = session;
  v->begun = moment;
  raise_high (v, moment);
}

/* The value that comes before it, and it before that, with this zone; NULL: none.  Where
 * many are kept, most are older and were over by `low`.
 */
static const struct value *
clash (const struct grain *g, const struct value *v, uint64_t low,
       uint64_t high)
{
  const struct value *o;

  TAILQ_FOREACH (o, &g->values, entry) {
    if (o->highest <= low)
      return NULL;
    if (o != v && low < o->high && o->low < high)
      break;
  }
  return o;
}

static const char *
say (const char *what, const struct value *v)
{
  static char text[160];

  snprintf (text, sizeof text, what, v->version, v->begun, v->low, v->high);
  return text;
}

const char *
zones_written (struct zones *z, unsigned g, uint64_t version, unsigned host,
               uint64_t moment)
{
  struct grain *r = &z->grain[g];
  struct value *v = find (r, version);
  const struct value *o;

  note (z, moment);
  if (v == NULL) /* long written over, and that was flushed */
    return NULL;
  lower_to (&v->done, moment);
  v->spoken[host] = moment;
  v->answered = true;
  if (v->begun <= r->fell) /* its copies may be lost */
    return NULL;
  lower_to (&v->low, v->closed < moment ? v->closed : moment);
  o = clash (r, v, v->low, v->high);
  return o ? say ("it was gone before it was answered: version %" PRIu64
                  " was there since (begun %" PRIu64 ", low %" PRIu64
                  ", high %" PRIu64 ")",
                  o)
           : NULL;
}

/* What is wrong if a read, or all that there is, is this value? */
static const char *
wrong (const struct grain *g, const struct value *v, uint64_t promised,
       uint64_t begin, uint64_t end)
{
  uint64_t low = v->closed < end ? v->closed : end;
  const struct value *o;

  if (v->begun > end)
    return "it was not written yet";
  if (v->done < promised)
    return "a newer one was flushed";
  if (begin <= g->fell)
    return NULL;
  o = clash (g, v, low < v->low ? low : v->low,
             begin > v->high ? begin : v->high);
  return o ? say ("version %" PRIu64 " was there since (begun %" PRIu64
                  ", low %" PRIu64 ", high %" PRIu64 ")",
                  o)
           : NULL;
}

const char *
zones_read (struct zones *z, unsigned g, uint64_t version, uint64_t promised,
            uint64_t begin, uint64_t end)
{
  struct grain *r = &z->grain[g];
  struct value *v, *only = NULL;
  const char *why = "nobody has written it, or long ago";
  unsigned possible = 0;

  note (z, end);
  TAILQ_FOREACH (v, &r->values, entry)
    if (version ? v->version == version : v->zeroes) {
      const char *not = wrong (r, v, promised, begin, end);

      if (not!= NULL)
        why = not;
      else {
        possible++;
        only = v;
      }
      if (version) /* there is one of it */
        break;
    }
  if (possible == 0)
    return why;
  if (possible == 1 && begin > r->fell) {
    lower_to (&only->done, end);
    lower_to (&only->low, only->closed < end ? only->closed : end);
    raise_high (only, begin);
  }
  return NULL;
}

const char *
zones_kept (const struct zones *z, unsigned g, uint64_t version)
{
  const struct grain *r = &z->grain[g];
  const struct value *v;

  TAILQ_FOREACH (v, &r->values, entry)
    if ((version ? v->version == version : v->zeroes) && v->done >= r->promised)
      return NULL;
  return "a newer one was flushed";
}

uint64_t
zones_promised (const struct zones *z, unsigned g)
{
  return z->grain[g].promised;
}

void
zones_close (struct zones *z, unsigned g, bool (*over) (uint64_t),
             uint64_t moment)
{
  struct grain *r = &z->grain[g];
  struct value *v;
  uint64_t open = moment;

  note (z, moment);
  TAILQ_FOREACH (v, &r->values, entry) {
    if (v->begun < r->settled)
      break;
    if (v->low != NEVER)
      continue;
    if (v->answered || over (v->session)) {
      lower_to (&v->closed, moment);
      lower_to (&v->done, moment);
    }
    else
      open = v->begun;
  }
  r->settled = open;
}

void
zones_fall (struct zones *z, unsigned g)
{
  struct grain *r = &z->grain[g];
  struct value *v;

  r->fell = z->moment;
  r->settled = 0;
  TAILQ_FOREACH (v, &r->values, entry) {
    v->low = v->closed = NEVER;
    v->high = 0;
    v->fallen = !v->flushed;
    if (!v->answered) /* its host writes it again */
      v->done = NEVER;
  }
}

static void
undo (struct grain *g, struct value *v)
{
  g->settled = 0;
  v->low = v->done = NEVER;
  v->high = v->begun;
}

void
zones_undo (struct zones *z, unsigned g)
{
  struct value *v;

  TAILQ_FOREACH (v, &z->grain[g].values, entry)
    if (!v->answered)
      undo (&z->grain[g], v);
}

void
zones_left (struct zones *z, unsigned g, uint64_t session, uint64_t present,
            uint64_t moment)
{
  struct value *v;

  TAILQ_FOREACH (v, &z->grain[g].values, entry)
    if (v->session == session && !v->answered && v->low <= moment &&
        (present ? v->version != present : !v->zeroes))
      undo (&z->grain[g], v);
}

void
zones_came (struct zones *z, unsigned g, unsigned host, uint64_t moment)
{
  struct value *v;

  note (z, moment);
  TAILQ_FOREACH (v, &z->grain[g].values, entry)
    if (v->low != NEVER && !v->fallen && v->spoken[host] == 0)
      v->spoken[host] = moment;
}

static void
promise (struct grain *g, struct value *v)
{
  if (v->flushed)
    return;
  v->flushed = true;
  LIST_REMOVE (v, link);
  raise_to (&g->promised, v->begun);
}

static bool
speaks (const struct zones *z, const struct value *v, unsigned host,
        uint64_t begin)
{
  return v->spoken[host] > z->told[host] && v->spoken[host] < begin;
}

bool
zones_flushed (struct zones *z, unsigned g, unsigned host, uint64_t begin)
{
  struct grain *r = &z->grain[g];
  struct value *v, *next;
  bool any = false;

  for (v = LIST_FIRST (&r->loose); v; v = next) {
    next = LIST_NEXT (v, link);
    if (speaks (z, v, host, begin)) {
      promise (r, v);
      any = true;
    }
  }
  TAILQ_FOREACH (v, &r->values, entry) {
    if (any)
      break;
    any = speaks (z, v, host, begin);
  }
  return any;
}

void
zones_flush_failed (struct zones *z, unsigned host, uint64_t begin)
{
  raise_to (&z->told[host], begin);
}

void
zones_host_anew (struct zones *z, unsigned host)
{
  struct value *v;

  for (unsigned g = 0; g < z->grains; g++)
    TAILQ_FOREACH (v, &z->grain[g].values, entry)
      v->spoken[host] = 0;
}

void
zones_promise (struct zones *z, unsigned g, uint64_t version)
{
  struct value *v = find (&z->grain[g], version);

  if (v)
    promise (&z->grain[g], v);
}

bool
zones_owes (const struct zones *z, unsigned g, uint64_t session)
{
  const struct grain *r = &z->grain[g];
  const struct value *v;

  LIST_FOREACH (v, &r->loose, link)
    if (v->session == session && v->done >= r->promised)
      return true;
  return false;
}

void
zones_forget (struct zones *z, unsigned g, uint64_t oldest)
{
  struct grain *r = &z->grain[g];
  struct value *last = NULL, *v, *older;

  TAILQ_FOREACH_REVERSE (v, &r->values, values, entry)
  {
    if (v->begun >= oldest)
      break;
    if (v->done < oldest && v->flushed)
      last = v;
  }
  for (v = last; v; v = older) {
    older = TAILQ_NEXT (v, entry);
    if (v->done >= last->begun)
      continue;
    TAILQ_REMOVE (&r->values, v, entry);
    if (!v->flushed)
      LIST_REMOVE (v, link);
    free (v);
  }
}
