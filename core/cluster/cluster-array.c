/* cluster-array.c: arrays: planning, creating, deleting, and how they fare.
 *
 * An array is made in one transaction and is "creating" until every disk has
 * reported its place.  Deleting it is one transaction too: from then on each of
 * its disks is told to release that array, by its UUID, until it says that it
 * has.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

struct cluster_array *
cluster_array_find (const struct cluster *c, const char *name)
{
  struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    if (strcmp (a->rec.name, name) == 0)
      return a;
  return NULL;
}

struct cluster_array *
cluster_array_by_uuid (const struct cluster *c, const uint8_t uuid[16])
{
  struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    if (cluster_uuid_equal (a->rec.uuid, uuid))
      return a;
  return NULL;
}

void
cluster_array_link (struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    a->disk[m] = cluster_disk_find (c, a->rec.member[m].disk);
    assert (a->disk[m] && a->disk[m]->array == NULL);
    a->disk[m]->array = a;
    a->disk[m]->position = m;
  }
}

void
cluster_array_unlink (struct cluster *c, struct cluster_array *a,
                      unsigned member)
{
  struct cluster_disk *d = a->disk[member];

  a->disk[member] = NULL;
  d->array = NULL;
  d->took_place = d->old_copy = d->served = false;
  d->told = false;
  d->rec.sequence = 0;
  memset (&d->join, 0, sizeof d->join);
  if (cluster_disk_is_name (d)) {
    cluster_drop_disk (c, d);
    return;
  }
  memcpy (d->rec.release, a->rec.uuid, 16);
  cluster_put_disk (c, d);
  cluster_changed_disk (c, d);
  cluster_disk_wake (c, d);
}

uint64_t
cluster_array_wanted_epoch (const struct cluster_array *a)
{
  return a->rec.change.epoch ? a->rec.change.epoch : a->rec.epoch;
}

void
cluster_array_heard_round (struct cluster *c, struct cluster_array *a,
                           uint64_t round)
{
  if (round > a->rec.round)
    a->rec.round = round; /* also where it is not stored yet */
  if (a->rec.round == a->stored_round ||
      (a->stored_live_ms && c->live_ms - a->stored_live_ms < SEQUENCE_MS))
    return;
  a->stored_round = a->rec.round;
  a->stored_live_ms = c->live_ms;
  cluster_put_array (c, a);
}

/* ---- Planning and creating. ---- */

static struct cluster_problem *
bad (struct cluster_problem *p, const char *code, const char *field)
{
  p->code = code;
  p->field = field;
  return p;
}

/* Can this disk be member m of a new array?  Returns 0 or -1. */
static int
plan_disk (struct cluster *c, const struct cluster_create *create, unsigned m,
           struct cluster_array *a, struct cluster_problem *p)
{
  const uint8_t *uuid = create->disk[m];
  struct cluster_disk *d = cluster_disk_find (c, uuid);
  const struct cluster_array *other;
  char words[320];

  if (d == NULL) {
    cluster_disk_unknown (uuid, p);
    p->field = "disks";
    return -1;
  }
  cluster_disk_words (d, words, sizeof words);
  for (unsigned i = 0; i < m; i++)
    if (a->disk[i] == d) {
      cluster_problem_set (p, CLUSTER_INVALID, "same-disk",
                           "%s is given twice: every member needs a disk of "
                           "its own",
                           words);
      p->field = "disks";
      return -1;
    }
  if (d->array)
    cluster_problem_set (p, CLUSTER_CONFLICT, "in-use",
                         "%s is member %u of array %s: choose another disk, "
                         "or delete that array first",
                         words, d->position, d->array->rec.name);
  else if (!cluster_uuid_is_zero (d->rec.spare_of)) {
    other = cluster_array_by_uuid (c, d->rec.spare_of);
    cluster_problem_set (p, CLUSTER_CONFLICT, "spare",
                         "%s is a spare of array %s: choose another disk, or "
                         "take it from that array's spares first",
                         words, other ? other->rec.name : "another");
  }
  else if (cluster_disk_usable (c, d, p)) {
    a->disk[m] = d;
    memcpy (a->rec.member[m].disk, uuid, 16);
    a->rec.member[m].state = MEMBER_IN_SYNC;
    a->rec.member[m].since_wall_ms = c->wall_ms;
    return 0;
  }
  p->field = "disks";
  return -1;
}

int
cluster_array_plan (struct cluster *c, const struct cluster_create *create,
                    struct cluster_array *a, struct cluster_problem *p)
{
  uint64_t bytes = UINT64_MAX, epoch = 0;
  char why[256];

  memset (a, 0, sizeof *a);
  if (cluster_array_find (c, create->name)) {
    cluster_problem_set (p, CLUSTER_CONFLICT, "exists",
                         "there is an array %s already: choose another name",
                         create->name);
    bad (p, "exists", "name");
    return -1;
  }
  if (create->groups == 0 || create->members == 0 ||
      create->members % create->groups != 0) {
    cluster_problem_set (p, CLUSTER_INVALID, "groups",
                         "%u disks cannot be parted into %u equal groups: give "
                         "a number of groups that divides them",
                         create->members, create->groups);
    p->field = "groups";
    return -1;
  }
  if (create->layout == LAYOUT_RAIDX && create->dup != DUP_ASYNC_CLIENT) {
    cluster_problem_set (p, CLUSTER_INVALID, "dup",
                         "raid-x writes its images in the background, always: "
                         "leave dup out, or choose another layout");
    p->field = "dup";
    return -1;
  }
  for (unsigned m = 0; m < create->members; m++) {
    if (plan_disk (c, create, m, a, p) == -1)
      return -1;
    if (a->disk[m]->rec.data_bytes < bytes)
      bytes = a->disk[m]->rec.data_bytes;
    /* Above whatever its disks have seen in other arrays. */
    if (a->disk[m]->min_epoch > epoch)
      epoch = a->disk[m]->min_epoch;
    if (a->disk[m]->states_epoch > epoch)
      epoch = a->disk[m]->states_epoch;
  }
  if (layout_init (&a->layout, create->layout, create->members / create->groups,
                   create->groups, create->unit, format_usable (bytes), why,
                   sizeof why) == -1) {
    cluster_problem_set (p, CLUSTER_INVALID, "layout", "%s", why);
    p->field = "layout";
    return -1;
  }
  snprintf (a->rec.name, sizeof a->rec.name, "%s", create->name);
  a->rec.layout = create->layout;
  a->rec.dup = create->dup;
  a->rec.n = a->layout.n;
  a->rec.groups = a->layout.groups;
  a->rec.unit = create->unit;
  a->rec.member_bytes = a->layout.member_bytes;
  a->rec.epoch = epoch + 1;
  a->rec.spare_after_ms = SPARE_AFTER_MS_DEFAULT;
  for (unsigned m = 0; m < create->members; m++)
    a->rec.member[m].fence = a->rec.member[m].lapse = a->rec.epoch;
  return 0;
}

bool
cluster_array_create_refused (struct cluster *c, uint64_t op,
                              const struct cluster_create *create,
                              struct cluster_array *plan)
{
  const struct cluster_array *other;
  struct cluster_problem p;
  unsigned count = 0;

  TAILQ_FOREACH (other, &c->arrays, link)
    count++;
  if (cluster_refuse_read_only (c, op))
    ;
  else if (count >= ARRAYS_MAX)
    cluster_refuse (c, op, CLUSTER_CONFLICT, "too-many",
                    "there are %d arrays already: delete one first",
                    ARRAYS_MAX);
  else if (cluster_array_plan (c, create, plan, &p) == -1)
    cluster_problem_send (c, op, &p);
  else
    return false;
  return true;
}

void
cluster_array_create (struct cluster *c, const struct cluster_input *in,
                      const struct cluster_create *create)
{
  struct cluster_array *a = cluster_alloc (sizeof *a);

  cluster_begin (c, in);
  if (cluster_array_create_refused (c, in->op, create, a))
    free (a);
  else {
    cluster_uuid_make (in->random, a->rec.uuid);
    TAILQ_INSERT_TAIL (&c->arrays, a, link);
    cluster_array_link (c, a);
    cluster_put_array (c, a);
    cluster_changed_array (c, a);
    for (unsigned m = 0; m < a->layout.members; m++) {
      cluster_changed_disk (c, a->disk[m]);
      cluster_disk_wake (c, a->disk[m]);
    }
    cluster_log (c, CLUSTER_INFO, "array", a->rec.name,
                 "Array %s was created: %s over %u members.", a->rec.name,
                 layout_name (a->rec.layout), a->layout.members);
    cluster_reply_array (c, in->op, a);
  }
  cluster_end (c);
}

/* ---- Deleting. ---- */

bool
cluster_array_delete_refused (struct cluster *c, uint64_t op, const char *name)
{
  const struct cluster_array *a = cluster_array_find (c, name);
  struct cluster_session *s;
  struct cluster_problem *p;

  if (a == NULL) {
    cluster_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-array",
                    "there is no array %s: GET /api/v1/arrays lists them",
                    name);
    return true;
  }
  if (cluster_refuse_read_only (c, op))
    return true;
  TAILQ_FOREACH (s, &c->sessions, link) {
    if (s->rec.ended || !s->alive ||
        !cluster_uuid_equal (s->rec.array, a->rec.uuid))
      continue;
    p = cluster_refuse (c, op, CLUSTER_CONFLICT, "held",
                        "array %s is attached by node %s, process %" PRIu64
                        ": detach it there first",
                        a->rec.name, s->rec.node, s->rec.pid);
    p->holder = s->rec.id;
    snprintf (p->holder_node, sizeof p->holder_node, "%s", s->rec.node);
    p->holder_pid = s->rec.pid;
    p->holder_silent_ms = cluster_session_silent_ms (c, s);
    return true;
  }
  return false;
}

static void
delete (struct cluster *c, uint64_t op, struct cluster_array *a)
{
  struct cluster_array_record rec = a->rec;
  struct cluster_session *s;
  struct cluster_disk *d;
  struct waiting *w, *next;

  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if ((w->kind != WAIT_ATTACH && w->kind != WAIT_HOLDER) || w->array != a)
      continue;
    cluster_refuse (c, w->op, CLUSTER_NOT_FOUND, "unknown-array",
                    "array %s was deleted meanwhile", rec.name);
    cluster_wait_end (c, w);
  }
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && cluster_uuid_equal (s->rec.array, rec.uuid))
      cluster_session_end (c, s, "array %s was deleted", rec.name);
  for (unsigned m = 0; m < a->layout.members; m++)
    cluster_array_unlink (c, a, m);
  TAILQ_FOREACH (d, &c->disks, link)
    if (cluster_uuid_equal (d->rec.spare_of, rec.uuid)) {
      memset (d->rec.spare_of, 0, 16);
      cluster_put_disk (c, d);
      cluster_changed_disk (c, d);
    }
  cluster_log (c, CLUSTER_INFO, "array", rec.name, "Array %s was deleted.",
               rec.name);
  cluster_drop_array (c, a);
  cluster_reply_done (c, op, CLUSTER_ARRAY, rec.uuid, 0, rec.name);
}

void
cluster_array_delete (struct cluster *c, const struct cluster_input *in,
                      const char *name)
{
  cluster_begin (c, in);
  if (!cluster_array_delete_refused (c, in->op, name))
    delete (c, in->op, cluster_array_find (c, name));
  cluster_end (c);
}

/* ---- How it fares. ---- */

void
cluster_array_moved (struct cluster *c, struct cluster_array *a)
{
  bool ready = true;

  for (unsigned m = 0; m < a->layout.members; m++)
    ready = ready && a->disk[m]->took_place;
  if (ready && !a->rec.ready) {
    cluster_job_created (c, a);
    a->rec.ready = true;
    cluster_put_array (c, a);
    cluster_log (c, CLUSTER_INFO, "array", a->rec.name,
                 "Array %s is ready: all of its %u members are in place.",
                 a->rec.name, a->layout.members);
  }
  cluster_epoch_advance (c, a);
  cluster_rebuild_tick (c, a);
  cluster_changed_array (c, a);
}

bool
cluster_member_well (const struct cluster_array *a, unsigned member,
                     const char **why)
{
  const struct cluster_disk *d = a->disk[member];

  if (a->rec.member[member].state == MEMBER_OUT)
    *why = "is out";
  else if (a->rec.member[member].state == MEMBER_JOINING)
    *why = "is joining";
  else if (d->old_copy)
    *why = "is an old copy of the disk";
  else if (d->failed)
    *why = "has failed";
  else if (!d->alive)
    *why = "is silent";
  else if (!d->heard)
    *why = "has not been heard of since weftd was started";
  else if (!d->took_place)
    *why = "has not taken its place yet";
  else
    return true;
  return false;
}

/* Its disk serves nothing just now. */
static bool
away (const struct cluster_disk *d)
{
  return !d->alive || d->failed || d->old_copy;
}

void
cluster_array_missing (const struct cluster_array *a, bool out[], bool gone[])
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    out[m] = a->rec.member[m].state != MEMBER_IN_SYNC;
    gone[m] = out[m] || away (a->disk[m]);
  }
}

/* Of the bytes that have fewer copies than they should while these members are
 * gone, how many do not have them in a member that is joining, as that says?
 */
static uint64_t
still_exposed (const struct cluster_array *a, bool gone[], uint64_t exposed)
{
  uint64_t rest, todo = 0;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_join *join = &a->disk[m]->join;

    if (a->rec.member[m].state != MEMBER_JOINING ||
        join->phase < CLUSTER_JOIN_COPYING ||
        join->epoch != a->rec.member[m].fence)
      continue;
    gone[m] = false;
    /* It counts in extents: that may be a little more than there is. */
    todo += join->todo_bytes < a->rec.member_bytes ? join->todo_bytes
                                                   : a->rec.member_bytes;
  }
  layout_loss (&a->layout, gone, &rest);
  return rest + todo < exposed ? rest + todo : exposed;
}

void
cluster_array_exposure (const struct cluster_array *a, uint64_t *exposed,
                        uint64_t *unreachable, uint64_t *lost)
{
  bool out[ARRAY_MEMBERS_MAX], gone[ARRAY_MEMBERS_MAX];
  uint64_t e, u;

  cluster_array_missing (a, out, gone);
  u = layout_loss (&a->layout, gone, &e);
  if (exposed)
    *exposed = still_exposed (a, gone, e);
  if (unreachable)
    *unreachable = u;
  if (lost)
    *lost = layout_loss (&a->layout, out, NULL);
}

/* "any 1 more member but 1, 5 and 4 others": those have the last copy of something.
 * Returns whether there is one that has not.
 */
static bool
name_spared (const struct cluster_array *a, bool gone[], char *text, size_t size)
{
  uint64_t now = layout_loss (&a->layout, gone, NULL);
  unsigned spared = 0, needed = 0;
  size_t used = (size_t) snprintf (text, size, "any 1 more member");

  for (unsigned m = 0; m < a->layout.members; m++) {
    if (gone[m])
      continue;
    gone[m] = true;
    if (layout_loss (&a->layout, gone, NULL) == now)
      spared++;
    else if (needed++ < 8)
      used += (size_t) snprintf (text + used, size - used, "%s%u",
                                 needed == 1 ? " but " : ", ", m);
    gone[m] = false;
  }
  if (needed > 8)
    snprintf (text + used, size - used, " and %u others", needed - 8);
  return spared > 0;
}

void
cluster_array_survives (const struct cluster_array *a, char *text, size_t size)
{
  bool out[ARRAY_MEMBERS_MAX], gone[ARRAY_MEMBERS_MAX], any = false;
  char whole[200], spared[120];

  layout_survives (&a->layout, whole, sizeof whole);
  cluster_array_missing (a, out, gone);
  for (unsigned m = 0; m < a->layout.members; m++)
    any |= gone[m];
  if (!any || a->layout.copies == 1)
    snprintf (text, size, "%s", whole);
  else if (layout_loss (&a->layout, gone, NULL) > 0)
    snprintf (text, size, "no more: some data cannot be reached (when all "
              "members are in-sync: %s)", whole);
  else
    snprintf (text, size, "%s (when all members are in-sync: %s)",
              name_spared (a, gone, spared, sizeof spared)
                ? spared : "no further loss now", whole);
}

bool
cluster_array_keeps (const struct cluster_array *a, const uint8_t states[])
{
  bool before[ARRAY_MEMBERS_MAX], after[ARRAY_MEMBERS_MAX], any = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];
    bool in_sync = a->rec.member[m].state == MEMBER_IN_SYNC;
    bool goes = in_sync && states[m] != MEMBER_IN_SYNC;

    before[m] = !in_sync || (!goes && (d->old_copy || d->failed));
    after[m] = before[m] || goes;
    any |= goes;
  }
  return !any || layout_loss (&a->layout, after, NULL) ==
                   layout_loss (&a->layout, before, NULL);
}

bool
cluster_array_can_leave_out (const struct cluster_array *a, unsigned member)
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  for (unsigned m = 0; m < a->layout.members; m++)
    states[m] = (uint8_t) a->rec.member[m].state;
  states[member] = MEMBER_OUT;
  return cluster_array_keeps (a, states);
}

void
cluster_array_leave_out (const struct cluster_array *a, unsigned member,
                         uint8_t states[])
{
  unsigned group = member / a->layout.n;

  if (a->rec.member[member].state == MEMBER_IN_SYNC)
    for (unsigned m = group * a->layout.n; m < (group + 1) * a->layout.n; m++)
      /* With two copies it has nowhere else to copy from, and what it has
       * from there is as good as ever.
       */
      if (states[m] == MEMBER_JOINING && a->layout.copies > 2)
        states[m] = MEMBER_OUT;
  states[member] = MEMBER_OUT;
}

bool
cluster_array_concerns_sessions (const struct cluster_array *a,
                                 const uint8_t states[])
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state != states[m] &&
        (a->rec.member[m].state == MEMBER_IN_SYNC ||
         states[m] == MEMBER_IN_SYNC))
      return true;
  return false;
}

const char *
cluster_array_state (const struct cluster_array *a)
{
  uint64_t unreachable;
  bool joining = false;

  if (!a->rec.ready)
    return "creating";
  cluster_array_exposure (a, NULL, &unreachable, NULL);
  if (unreachable > 0)
    return "failed";
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state == MEMBER_OUT || away (a->disk[m]))
      return "degraded";
    joining = joining || a->rec.member[m].state == MEMBER_JOINING;
  }
  return joining ? "rebuilding" : "ready";
}

/* "member 1 (disk /dev/sdb of node n1), member 3 (...) and 4 more" */
static void
name_members (const struct cluster_array *a, const bool which[], char *text,
              size_t size)
{
  char words[320];
  unsigned said = 0, more = 0;
  size_t used = 0;

  text[0] = '\0';
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (!which[m])
      continue;
    if (said == 3 || used + 340 > size) {
      more++;
      continue;
    }
    used += (size_t) snprintf (text + used, size - used, "%smember %u (%s)",
                               said ? ", " : "", m,
                               cluster_disk_words (a->disk[m], words,
                                                   sizeof words));
    said++;
  }
  if (more)
    snprintf (text + used, size - used, " and %u more", more);
}

/* "node n1 (process 7) and 2 more" */
static bool
name_sessions (const struct cluster *c, const struct cluster_array *a,
               char *text, size_t size)
{
  const struct cluster_session *s, *first = NULL;
  unsigned more = 0;

  TAILQ_FOREACH (s, &c->sessions, link) {
    if (!cluster_epoch_waits_for_session (a, s))
      continue;
    if (first)
      more++;
    else
      first = s;
  }
  if (first == NULL)
    return false;
  snprintf (text, size, "node %s (process %" PRIu64 ")", first->rec.node,
            first->rec.pid);
  if (more)
    snprintf (text + strlen (text), size - strlen (text), " and %u more", more);
  return true;
}

/* What the first joining member that waits says that it waits for. */
static bool
name_join (const struct cluster_array *a, char *text, size_t size)
{
  char words[320];

  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_JOINING && a->disk[m]->join.waits[0]) {
      snprintf (text, size, "member %u (%s) to be rebuilt, which waits for %s",
                m, cluster_disk_words (a->disk[m], words, sizeof words),
                a->disk[m]->join.waits);
      return true;
    }
  return false;
}

bool
cluster_array_waits_for (const struct cluster *c, const struct cluster_array *a,
                         uint64_t wall_ms, char *text, size_t size)
{
  bool which[ARRAY_MEMBERS_MAX];
  char names[1200];
  uint64_t since = a->rec.change.since_wall_ms;
  bool any = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    which[m] = a->rec.change.epoch ? cluster_epoch_waits_for (a, m)
               : !a->rec.ready     ? !a->disk[m]->took_place
                                   : a->rec.member[m].state == MEMBER_IN_SYNC &&
                                   away (a->disk[m]);
    any |= which[m];
  }
  name_members (a, which, names, sizeof names);
  if (!any && a->rec.change.epoch == 0)
    return cluster_lost_words (c, a, text, size) || name_join (a, text, size);
  if (!any && !name_sessions (c, a, names, sizeof names))
    return false;
  if (a->rec.change.epoch)
    snprintf (text, size, "%s to %s epoch %" PRIu64 ", since %" PRIu64 " s",
              names, any ? "confirm" : "prepare", a->rec.change.epoch,
              wall_ms > since ? (wall_ms - since) / 1000 : 0);
  else if (!a->rec.ready)
    snprintf (text, size, "%s to take its place", names);
  else
    snprintf (text, size, "%s to come back", names);
  return true;
}
