/* test-cluster-plan.c: which imports are refused: all short histories of small arrays,
 * with every set of disks that is heard afterwards.
 *
 * In a history members go out, come back and are replaced, all confirm an epoch, and data
 * is written and flushed.  Disks may have been started again at the end.  A model keeps the content of each disk.  If an import is allowed without
 * accept_loss, all disks that it takes as in-sync must have the newest data, and it must
 * have a copy of everything.  An import with all in-sync disks must be allowed, also if some
 * have confirmed the last epoch and not heard of its COMMIT.  If weftd never reached one of
 * them, this holds only if all disks are there, even if the loss is accepted.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster-import.h"
#include "cluster/inputs/cluster-inputs.h"
#include "cluster/cluster-preflight.h"

#define DISKS_ALL 8
#define EVENTS_MAX 4

static struct cluster *engine;
static struct layout layout;

struct model_disk {
  unsigned place;
  uint64_t epoch, round, version; /* that it knows; of what is on it */
  uint64_t confirmed,
    served; /* the last epochs that it confirmed; in which it served */
  uint8_t states[ARRAY_MEMBERS_MAX];
};

struct model {
  struct model_disk disk[DISKS_ALL];
  unsigned disks, of[ARRAY_MEMBERS_MAX]; /* the disk of each place */
  uint64_t epoch, round, version;
  uint8_t states[ARRAY_MEMBERS_MAX];
  unsigned deaf; /* disks that weftd never reaches */
};

static struct counts {
  unsigned long let, refused, forced, lost;
} counts;

static bool
  raised; /* all disks were started again, and have raised min_epoch by that */

/* ---- The model. ---- */

static bool
keeps (const uint8_t states[])
{
  bool lost[ARRAY_MEMBERS_MAX];

  for (unsigned m = 0; m < layout.members; m++)
    lost[m] = states[m] != MEMBER_IN_SYNC;
  return layout_loss (&layout, lost, NULL) == 0;
}

/* weftd tells the new states to those who are not out; deaf: but not to these disks. */
static void
tell (struct model *w, unsigned deaf)
{
  w->epoch++;
  for (unsigned m = 0; m < layout.members; m++) {
    struct model_disk *d = &w->disk[w->of[m]];

    if (w->states[m] == MEMBER_OUT)
      continue;
    d->served = w->epoch; /* the array process reaches it */
    if (deaf & 1u << w->of[m])
      continue;
    d->epoch = w->epoch;
    memcpy (d->states, w->states, sizeof d->states);
  }
}

/* The disk has all that the others have. */
static void
copy (struct model *w, unsigned m)
{
  w->disk[w->of[m]].round = w->round;
  w->disk[w->of[m]].version = w->version;
}

static void
write_all (struct model *w)
{
  w->version++;
  w->round += 2; /* a FLUSH waits for these */
  for (unsigned m = 0; m < layout.members; m++)
    if (w->states[m] == MEMBER_IN_SYNC)
      copy (w, m);
}

/* An array process attaches or detaches: all members that are not out confirm that. */
static bool
fence (struct model *w, unsigned deaf)
{
  for (unsigned m = 0; m < layout.members; m++) {
    if (w->states[m] == MEMBER_OUT)
      continue;
    if (w->deaf & 1u << w->of[m])
      return false;
    w->disk[w->of[m]].confirmed = w->epoch + 1;
  }
  tell (w, deaf);
  return true;
}

/* Event 0 writes data; then each member has three events; the last one is a fence.  weftd
 * does not send the last epoch to the deaf members.  False: this can't happen.
 */
static bool
happen (struct model *w, unsigned event, unsigned deaf)
{
  unsigned m = (event - 1) / 3, what = (event - 1) % 3;

  if (event == 0) {
    write_all (w);
    return true;
  }
  if (m == layout.members)
    return fence (w, deaf);
  if (what == 0) { /* it is lost */
    if (w->states[m] == MEMBER_OUT)
      return false;
    w->states[m] = MEMBER_OUT;
    if (!keeps (w->states))
      return false;
    tell (w, deaf);
    return true;
  }
  if (w->states[m] != MEMBER_OUT || w->disks == DISKS_ALL ||
      (what == 2 && w->deaf & 1u << w->of[m]))
    return false;
  if (what == 1) { /* another disk takes its place */
    w->of[m] = w->disks++;
    w->disk[w->of[m]].place = m;
  }
  w->states[m] = MEMBER_JOINING;
  w->epoch++; /* the former disk may have raised its min_epoch to this */
  w->disk[w->of[m]].confirmed = w->epoch + 1;
  tell (w, w->deaf);
  w->states[m] = MEMBER_IN_SYNC;
  copy (w, m);
  tell (w, deaf);
  return true;
}

static void
begin (struct model *w)
{
  *w = (struct model) { .disks = layout.members, .round = 2 };
  for (unsigned m = 0; m < layout.members; m++) {
    w->of[m] = w->disk[m].place = m;
    copy (w, m);
  }
  tell (w, 0);
}

/* ---- What the engine makes of it. ---- */

static void
hear (const struct model *w, unsigned there)
{
  struct cluster_foreign *f;

  while ((f = TAILQ_FIRST (&engine->foreigns)) != NULL) {
    TAILQ_REMOVE (&engine->foreigns, f, link);
    free (f);
  }
  for (unsigned i = 0; i < w->disks; i++) {
    const struct model_disk *d = &w->disk[i];
    struct cluster_disk_heartbeat hb = { .uuid = { (uint8_t) (i + 1) },
                                         .cluster = { 7 },
                                         .array = { 8 },
                                         .has_place = true,
                                         .size = MiB (256),
                                         .position = d->place,
                                         .states_epoch = d->epoch,
                                         .min_epoch = d->confirmed,
                                         .round = d->round,
                                         .sequence = 1000 - i };

    if (!(there & 1u << i))
      continue;
    if (raised && hb.min_epoch <= d->served)
      hb.min_epoch = d->served + 1;
    hb.layout = layout.kind;
    hb.n = layout.n;
    hb.groups = layout.groups;
    hb.unit = layout.unit;
    hb.member_bytes = layout.member_bytes;
    memcpy (hb.states, d->states, sizeof hb.states);
    snprintf (hb.path, sizeof hb.path, "/dev/d%u", i);
    cluster_import_note (engine, &hb);
  }
}

static bool
refused (const struct cluster_import *import, struct cluster_import_plan *plan)
{
  struct cluster_input in = { .op = 1, .now_ms = 1, .wall_ms = 1 };
  struct cluster_step *s;
  bool no;

  cluster_step_begin (engine, &in);
  no = cluster_import_refused (engine, 1, import, plan);
  s = engine->step;
  assert (s->outputs_count == no);
  engine->step = NULL;
  cluster_step_free (s);
  return no;
}

/* Is it an import of nothing old? */
static void
judge (const struct model *w, const struct cluster_import_plan *plan,
       const struct cluster_import *import, bool all)
{
  bool lost[ARRAY_MEMBERS_MAX], old = false;
  unsigned next = 0;
  char text[480];

  for (unsigned m = 0; m < layout.members; m++) {
    const struct cluster_disk_heartbeat *hb = plan->place[m].disk;

    lost[m] = plan->place[m].state != MEMBER_IN_SYNC;
    all &= w->states[m] != MEMBER_IN_SYNC || !import->without[m];
    old |= !lost[m] && w->disk[hb->uuid[0] - 1].version < w->version;
  }
  assert (layout_loss (&layout, lost, NULL) == 0);
  if (!import->accept_loss)
    assert (!old || (w->deaf && !all));
  else { /* and the import names the possible loss */
    assert (!old || w->deaf ||
            cluster_import_doubts (plan, &next, text, sizeof text));
    counts.lost += old;
    assert (!old || !all);
  }
  /* A disk that is not current is taken only if it is needed. */
  for (unsigned m = 0; m < layout.members; m++)
    if (!lost[m] && !plan->place[m].current) {
      lost[m] = true;
      assert (layout_loss (&layout, lost, NULL) > 0);
      lost[m] = false;
    }
}

/* With these disks, and those members given up that are needed for it. */
static void
try (const struct model *w, unsigned there, bool all_told)
{
  struct cluster_import import = { .array = { 8 } };
  struct cluster_import_plan first, plan;
  bool all = true;

  hear (w, there);
  for (unsigned m = 0; m < layout.members; m++)
    all &= w->states[m] != MEMBER_IN_SYNC || (there & 1u << w->of[m]);
  if (!refused (&import, &first)) {
    counts.let++;
    judge (w, &first, &import, all);
    return;
  }
  assert (!all || !all_told);
  counts.refused++;
  /* Missing and outdated disks are given up. */
  for (unsigned m = 0; m < layout.members; m++)
    import.without[m] = first.place[m].in_sync && !first.place[m].current;
  if (!refused (&import, &plan)) {
    counts.let++;
    judge (w, &plan, &import, all);
  }
  import.accept_loss = true;
  if (!refused (&import, &plan))
    judge (w, &plan, &import, all);
  for (unsigned m = 0; m < layout.members; m++)
    import.without[m] = first.place[m].in_sync && first.place[m].disk == NULL;
  if (!refused (&import, &plan)) {
    counts.forced++;
    judge (w, &plan, &import, all);
  }
}

static void
try_all (const struct model *w, bool all_told)
{
  for (unsigned there = 1; there < 1u << w->disks; there++)
    try (w, there, all_told);
}

/* Some members have not heard of the last event when all ends. */
static void
histories (const struct model *before, unsigned events)
{
  unsigned kinds = 2 + 3 * layout.members;
  struct model w;

  try_all (before, before->deaf == 0);
  for (unsigned e = 0; events > 0 && e < kinds; e++) {
    w = *before;
    if (!happen (&w, e, w.deaf))
      continue;
    histories (&w, events - 1);
    for (unsigned i = 0; e > 0 && w.deaf == 0 && i < w.disks; i++) {
      w = *before;
      happen (&w, e, ~(1u << i)); /* only this one has heard the last event */
      try_all (&w, e == kinds - 1);
      w = *before;
      happen (&w, e, 1u << i); /* or one alone has not */
      try_all (&w, e == kinds - 1);
      write_all (&w);
      try_all (&w, false);
    }
  }
}

static void
enumerate (enum layout_kind kind, unsigned n, unsigned groups, unsigned events)
{
  struct model w;
  char why[200];

  assert (layout_init (&layout, kind, n, groups, KiB (64), MiB (16), why,
                       sizeof why) == 0);
  memset (&counts, 0, sizeof counts);
  for (int again = 0; again < 2; again++) {
    raised = again;
    begin (&w);
    histories (&w, events - raised);
    for (unsigned m = 0; m < n; m++) {
      w.deaf = 1u << m;
      histories (&w, events - raised);
    }
  }
  printf ("%s of %u: %lu imports let through, %lu refused, %lu forced, of "
          "which %lu lost data\n",
          layout_name (kind), n * groups, counts.let, counts.refused,
          counts.forced, counts.lost);
  assert (counts.let && counts.refused && counts.forced && counts.lost);
}

int
main (void)
{
  struct cluster_input in = { .now_ms = 1, .wall_ms = 1 };
  struct cluster_step *s;
  char why[200];

  engine = cluster_new ();
  assert (cluster_start (engine, &in, why, sizeof why) == 0);
  while ((s = cluster_next_step (engine)) != NULL)
    cluster_step_free (s);
  enumerate (LAYOUT_RAID1, 2, 1, 4);
  enumerate (LAYOUT_RAID1, 3, 1, 3);
  enumerate (LAYOUT_RAIDX, 3, 1, 4);
  enumerate (LAYOUT_RAID10, 2, 2, 4);
  cluster_free (engine);
  return 0;
}
