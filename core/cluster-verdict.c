/* cluster-verdict.c: the state of everything in a few words for people, and the
 * engine's invariants for tests.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster-internal.h"

struct verdict {
  char *text;
  size_t size, used;
  enum cluster_severity severity;
};

static void say (struct verdict *v, enum cluster_severity severity,
                 const char *fmt, ...) __attribute__ ((format (printf, 3, 4)));

static void
say (struct verdict *v, enum cluster_severity severity, const char *fmt, ...)
{
  va_list ap;
  int n;

  if (severity > v->severity)
    v->severity = severity;
  if (v->used + 2 >= v->size)
    return;
  if (v->used)
    v->text[v->used++] = ' ';
  va_start (ap, fmt);
  n = vsnprintf (v->text + v->used, v->size - v->used, fmt, ap);
  va_end (ap);
  v->used += n < 0 ? 0 : (size_t) n;
  if (v->used >= v->size)
    v->used = v->size - 1;
}

/* "12.5 GiB" */
static const char *
bytes_words (uint64_t bytes, char *text, size_t size)
{
  static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
  double value = (double) bytes;
  unsigned u = 0;

  while (value >= 1024 && u < 4) {
    value /= 1024;
    u++;
  }
  snprintf (text, size, u == 0 ? "%.0f %s" : "%.4g %s", value, units[u]);
  return text;
}

/* The first member that is out, failed or silent, and how many there are. */
static unsigned
first_away (const struct cluster_array *a, const char **why, unsigned *count)
{
  unsigned first = 0;

  *count = 0;
  for (unsigned m = a->layout.members; m-- > 0;) {
    const struct cluster_disk *d = a->disk[m];
    const char *what = a->rec.member[m].state != MEMBER_IN_SYNC ? "is out"
                       : d->failed                              ? "has failed"
                       : !d->alive                              ? "is silent"
                                                                : NULL;

    if (what) {
      first = m;
      *why = what;
      ++*count;
    }
  }
  return first;
}

static void
say_array (struct verdict *v, const struct cluster *c,
           const struct cluster_array *a)
{
  uint64_t exposed, unreachable, lost;
  char e[32], u[32], words[320], others[64] = "", text[1500];
  const char *name = a->rec.name, *why = NULL;
  const struct cluster_session *writer;
  unsigned away, m;

  if (!a->rec.ready) {
    if (cluster_array_waits_for (c, a, c->wall_ms, text, sizeof text))
      say (v, CLUSTER_INFO, "Array %s is being made and waits for %s.", name,
           text);
    return;
  }
  writer = cluster_array_writer (c, a);
  if (writer && writer->stopped[0])
    say (v, CLUSTER_ERROR,
         "Array %s has stopped: %s. Bring the member back, then end the array "
         "process and start it again; what was flushed is safe.",
         name, writer->stopped);
  cluster_array_exposure (a, &exposed, &unreachable, &lost);
  bytes_words (exposed, e, sizeof e);
  bytes_words (unreachable, u, sizeof u);
  m = first_away (a, &why, &away);
  if (away == 0)
    return;
  cluster_disk_words (a->disk[m], words, sizeof words);
  if (away > 1)
    snprintf (others, sizeof others, " and so are %u more", away - 1);
  if (lost > 0)
    say (v, CLUSTER_ERROR,
         "Array %s has lost data: member %u (%s) %s%s, and of %s no copy is "
         "left in its members. Do not detach it, keep the disks as they are, "
         "and copy off what can still be read.",
         name, m, words, why, others, u);
  else if (unreachable > 0)
    say (v, CLUSTER_ERROR,
         "Array %s cannot serve %s of its data: member %u (%s) %s%s. Nothing "
         "is lost if the member comes back: start its process again.",
         name, u, m, words, why, others);
  else
    say (v, CLUSTER_WARNING,
         "Array %s is degraded: member %u (%s) %s%s, and %s %s only one copy "
         "left; the next loss can take data. %s",
         name, m, words, why, others, e,
         exposed == 1 ? "has" : "have",
         a->rec.member[m].state != MEMBER_IN_SYNC
           ? "Copy the data to another array while it is attached."
           : "Start the process of that member, or see its log.");
}

static void
say_session (struct verdict *v, const struct cluster *c,
             const struct cluster_session *s)
{
  if (s->rec.ended || s->alive)
    return;
  say (v, CLUSTER_WARNING,
       "Node %s, process %" PRIu64 ", which has array %s attached%s, has been "
       "silent for %" PRIu64 " s: what it had not yet flushed may be lost if "
       "it died; otherwise see to its connection to weftd.",
       s->rec.node, s->rec.pid, s->rec.array_name,
       s->rec.writable ? " for writing" : " read-only",
       cluster_session_silent_ms (c, s) / 1000);
}

/* What is not wrong, but worth a word when nothing is. */
static void
say_fine (struct verdict *v, unsigned disks, unsigned arrays, unsigned bare)
{
  if (disks == 0)
    say (v, CLUSTER_INFO,
         "No disk has registered yet: format one and start its member "
         "process.");
  else if (arrays == 0)
    say (v, CLUSTER_INFO,
         "%u disk%s registered and no array exists yet: create one.", disks,
         disks == 1 ? " is" : "s are");
  else if (bare == arrays)
    say (v, CLUSTER_INFO,
         "Nothing is wrong, but no array has any redundancy: the loss of a "
         "disk is the loss of its data.");
  else
    say (v, CLUSTER_INFO, "All is well: every byte has all of its copies%s.",
         bare ? ", except in the arrays without redundancy" : "");
}

enum cluster_severity
cluster_verdict (const struct cluster *c, char *text, size_t size)
{
  struct verdict v = { .text = text, .size = size };
  const struct cluster_array *a;
  const struct cluster_session *s;
  const struct cluster_disk *d;
  char words[320];
  unsigned disks = 0, arrays = 0, bare = 0;

  text[0] = '\0';
  if (c->read_only[0])
    say (&v, CLUSTER_ERROR, "%s.", c->read_only);
  /* The worst comes first. */
  for (int wanted = CLUSTER_ERROR; wanted >= CLUSTER_INFO; wanted--)
    TAILQ_FOREACH (a, &c->arrays, link) {
      const char *state = cluster_array_state (a);
      int is = strcmp (state, "failed") == 0     ? CLUSTER_ERROR
               : strcmp (state, "degraded") == 0 ? CLUSTER_WARNING
                                                 : CLUSTER_INFO;

      if (is == wanted)
        say_array (&v, c, a);
    }
  TAILQ_FOREACH (s, &c->sessions, link)
    say_session (&v, c, s);
  TAILQ_FOREACH (d, &c->disks, link) {
    disks++;
    if (d->array)
      continue;
    if (d->failed)
      say (&v, CLUSTER_WARNING, "%s has failed (%s): replace it.",
           cluster_disk_words (d, words, sizeof words), d->reason);
  }
  TAILQ_FOREACH (a, &c->arrays, link) {
    arrays++;
    bare += a->layout.copies == 1;
  }
  if (v.used == 0)
    say_fine (&v, disks, arrays, bare);
  return v.severity;
}

static void
check_array (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;

  assert (a->layout.members == a->rec.n * a->rec.groups);
  assert (a->rec.epoch > 0 && a->rec.fence <= a->rec.epoch);
  if (change->epoch) {
    assert (change->epoch > a->rec.epoch);
    assert (change->fence); /* any other is committed at once */
    /* Whoever wrote before is over, and nobody writes yet. */
    assert (cluster_array_writer (c, a) == NULL);
  }
  for (unsigned m = 0; m < a->layout.members; m++) {
    assert (a->disk[m] && a->disk[m]->array == a);
    assert (a->disk[m]->position == m);
    assert (cluster_uuid_is_zero (a->disk[m]->rec.release));
  }
}

void
cluster_check (const struct cluster *c)
{
  const struct cluster_array *a;
  const struct cluster_session *s, *other;
  const struct waiting *w;

  assert (c->step == NULL);
  TAILQ_FOREACH (a, &c->arrays, link)
    check_array (c, a);
  TAILQ_FOREACH (s, &c->sessions, link) {
    assert (s->rec.id != 0);
    if (s->rec.ended)
      continue;
    a = cluster_array_by_uuid (c, s->rec.array);
    assert (a && s->rec.epoch <= a->rec.epoch);
    if (!s->rec.writable)
      continue;
    assert (s->rec.epoch >= a->rec.fence);
    TAILQ_FOREACH (other, &c->sessions, link)
      assert (other == s || other->rec.ended || !other->rec.writable ||
              !cluster_uuid_equal (other->rec.array, s->rec.array));
  }
  TAILQ_FOREACH (w, &c->waitings, link) {
    assert ((w->kind == WAIT_CONTENDER) == (w->heartbeat != NULL));
    assert (w->kind != WAIT_ATTACH || w->array->rec.change.epoch);
  }
}
