/* cluster-member.c: an administrator's orders about an array's members and
 * spares.  Each call is one transaction: a refusal changes nothing, and an
 * answered change holds even if weftd dies.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "cluster-inputs.h"

/* The array and its member; NULL: refused. */
static struct cluster_array *
find (struct cluster *c, uint64_t op, const char *name, unsigned member)
{
  struct cluster_array *a;

  if (cluster_step_refuse_read_only (c, op) ||
      (a = cluster_step_array_or_refuse (c, op, name)) == NULL)
    return NULL;
  if (member < a->layout.members)
    return a;
  cluster_step_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-member",
                       "array %s has no member %u: its members are 0 to %u",
                       a->rec.name, member, a->layout.members - 1)
    ->field = "member";
  return NULL;
}

/* An answer to what was done about a member. */
static void
done (struct cluster *c, uint64_t op, struct cluster_array *a)
{
  cluster_step_put_array (c, a);
  cluster_array_due (c, a, DUE_MEMBERS);
  cluster_step_changed_array (c, a);
  cluster_step_reply_array (c, op, a);
}

/* ---- Replacing. ---- */

/* Can this disk serve the array, as a member or as a spare? */
static bool
refuse_disk (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_disk *d, const uint8_t uuid[16])
{
  struct cluster_problem p;
  char words[320];

  if (d == NULL)
    cluster_words_disk_unknown (uuid, &p);
  else if (d->array)
    cluster_step_problem_set (
      &p, CLUSTER_CONFLICT, "in-use",
      "%s is member %u of array %s: choose another disk",
      cluster_words_disk (d, words, sizeof words), d->position,
      d->array->rec.name);
  else if (!cluster_uuid_is_zero (d->rec.spare_of) &&
           !cluster_uuid_equal (d->rec.spare_of, a->rec.uuid))
    cluster_place_is_spare (c, d, &p);
  else if (cluster_place_usable (c, d, &p)) {
    if (d->rec.data_bytes >= a->rec.member_bytes)
      return false;
    cluster_step_problem_set (
      &p, CLUSTER_CONFLICT, "too-small",
      "%s has a data area of %" PRIu64 " bytes, and the "
      "members of array %s need %" PRIu64 ": choose a larger disk",
      cluster_words_disk (d, words, sizeof words), d->rec.data_bytes,
      a->rec.name, a->rec.member_bytes);
  }
  p.field = "disk";
  cluster_step_problem_send (c, op, &p);
  return true;
}

/* It is on a host that is not to have this member, too. */
static bool
refuse_beside (struct cluster *c, uint64_t op, const struct cluster_array *a,
               unsigned member, const struct cluster_disk *d)
{
  struct cluster_problem p;

  if (!cluster_place_refused (c, a, member, d, &p))
    return false;
  p.field = "disk";
  cluster_step_problem_send (c, op, &p);
  return true;
}

/* A member that is just changing its state is let be. */
static bool
refuse_changing (struct cluster *c, uint64_t op, const struct cluster_array *a,
                 unsigned member)
{
  const struct cluster_change *change = &a->rec.change;

  if (change->epoch == 0 || cluster_copies_stays_out (a, member))
    return false;
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS,
                      "array %s is just changing to epoch %" PRIu64
                      ", and its member %u with it: try again in a moment",
                      a->rec.name, change->epoch, member);
  return true;
}

/* No member of a frozen array goes out. */
static bool
refuse_going (struct cluster *c, uint64_t op, const struct cluster_array *a,
              unsigned member)
{
  return a->rec.member[member].state != MEMBER_OUT &&
         cluster_doubt_refuse (c, op, a);
}

/* Does it serve, so that it moves without ever being missed? */
static bool
moves (const struct cluster_array *a, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];

  return a->rec.member[member].state == MEMBER_IN_SYNC && d->alive &&
         !cluster_disk_failed (d);
}

/* An in-sync member is let be, unless its group is whole; or it is gone, and nobody uses
 * the array who would say so.
 */
static bool
refuse_in_sync (struct cluster *c, uint64_t op, const struct cluster_array *a,
                unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  char words[320], text[768];
  bool passes;

  if (a->rec.member[member].state != MEMBER_IN_SYNC)
    return false;
  cluster_words_disk (d, words, sizeof words);
  if (moves (a, member)) {
    if (refuse_changing (c, op, a, member))
      return true;
    if (!cluster_drain_hinders (c, a, member, text, sizeof text, &passes))
      return false;
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "in-sync",
      "member %u of array %s (%s) is in-sync and serves, and "
      "can't move now: that waits for %.300s",
      member, a->rec.name, words, text);
  }
  else if (!cluster_copies_can_leave_out (a, member))
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "last-copy",
      "member %u of array %s (%s) has the only copy that is left "
      "of some data: bring it back, or delete the array",
      member, a->rec.name, words);
  else if (cluster_array_attached (a))
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "in-sync",
                         "member %u of array %s (%s) is not out yet: the host "
                         "that has the array attached must find it lost first; "
                         "detach the array, or write to it, and try again",
                         member, a->rec.name, words);
  else
    return false;
  return true;
}

bool
cluster_member_replace_refused (struct cluster *c, uint64_t op,
                                const char *array, unsigned member,
                                const uint8_t disk[16], bool force)
{
  const struct cluster_disk *d = cluster_disk_find (c, disk);
  const struct cluster_array *a = find (c, op, array, member);

  if (a == NULL)
    return true;
  if (a->rec.ready)
    return a->disk[member] != d &&
           (refuse_in_sync (c, op, a, member) ||
            refuse_going (c, op, a, member) ||
            refuse_changing (c, op, a, member) ||
            refuse_disk (c, op, a, d, disk) ||
            (!force && refuse_beside (c, op, a, member, d)));
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "not-ready",
                       "array %s is still being made: delete it, and create it "
                       "with the other disk",
                       a->rec.name);
  return true;
}

void
cluster_member_replace (struct cluster *c, const struct cluster_input *in,
                        const char *array, unsigned member,
                        const uint8_t disk[16], bool force)
{
  struct cluster_disk *d = cluster_disk_find (c, disk);
  struct cluster_array *a = cluster_array_find (c, array);
  char words[320], old[320];

  cluster_step_begin (c, in);
  if (cluster_member_replace_refused (c, in->op, array, member, disk, force))
    ;
  else if (a->disk[member] == d) {
    memset (a->rec.member[member].next_disk, 0, 16);
    done (c, in->op, a);
  }
  else {
    cluster_words_disk (a->disk[member], old, sizeof old);
    cluster_words_disk (d, words, sizeof words);
    if (moves (a, member)) {
      memcpy (a->rec.member[member].next_disk, disk, 16);
      cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                        "Member %u of array %s is to move to %s.", member,
                        a->rec.name, words);
    }
    else {
      cluster_place_put_out (c, a, member, "it was replaced");
      cluster_pump_settle (c);
      assert (a->rec.member[member].state == MEMBER_OUT);
      cluster_place_give (c, a, member, d);
      cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                        "Member %u of array %s is now %s; it was %s.", member,
                        a->rec.name, words, old);
    }
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

/* ---- Its rebuild. ---- */

bool
cluster_member_cancel_refused (struct cluster *c, uint64_t op,
                               const char *array, unsigned member)
{
  const struct cluster_array *a = find (c, op, array, member);

  if (a == NULL)
    return true;
  if (a->rec.member[member].state != MEMBER_IN_SYNC)
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "in-sync",
    "member %u of array %s is in-sync: there is no rebuild of "
    "it to end",
    member, a->rec.name);
  return true;
}

void
cluster_member_cancel (struct cluster *c, const struct cluster_input *in,
                       const char *array, unsigned member)
{
  struct cluster_array *a = cluster_array_find (c, array);

  cluster_step_begin (c, in);
  if (!cluster_member_cancel_refused (c, in->op, array, member)) {
    a->rec.member[member].held = true;
    cluster_place_put_out (c, a, member, "its rebuild was cancelled");
    cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                      "Member %u of array %s stays out until weftctl rebuild "
                      "join takes it back.",
                      member, a->rec.name);
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_member_join (struct cluster *c, const struct cluster_input *in,
                     const char *array, unsigned member)
{
  struct cluster_array *a;
  struct cluster_member *m;

  cluster_step_begin (c, in);
  a = find (c, in->op, array, member);
  m = a ? &a->rec.member[member] : NULL;
  if (a == NULL)
    ;
  else if (m->state == MEMBER_IN_SYNC)
    cluster_step_refuse (c, in->op, CLUSTER_CONFLICT, "in-sync",
                         "member %u of array %s is in-sync already", member,
                         a->rec.name);
  else {
    m->held = m->slow = false;
    a->disk[member]->back.backoff_ms = a->disk[member]->back.due_live_ms = 0;
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_member_tune (struct cluster *c, const struct cluster_input *in,
                     const char *array, unsigned member,
                     const struct cluster_member_tune *tune)
{
  struct cluster_array *a;
  struct cluster_member *m;
  uint64_t floor, ceiling;
  char words[320];

  cluster_step_begin (c, in);
  a = find (c, in->op, array, member);
  if (a == NULL) {
    cluster_pump_end (c);
    return;
  }
  m = &a->rec.member[member];
  floor = tune->has_floor ? tune->floor : m->floor;
  ceiling = tune->has_ceiling ? tune->ceiling : m->ceiling;
  if (ceiling && floor > ceiling)
    cluster_step_refuse (c, in->op, CLUSTER_INVALID, "rate",
                         "a rebuild can't go at least at %" PRIu64
                         " and at most at %" PRIu64 " bytes a second: give a "
                         "floor that is not above the ceiling",
                         floor, ceiling)
      ->field = tune->has_ceiling ? "ceiling" : "floor";
  else if (tune->has_paused && tune->paused && m->state == MEMBER_IN_SYNC)
    cluster_step_refuse (
      c, in->op, CLUSTER_CONFLICT, "in-sync",
      "member %u of array %s (%s) is in-sync: it has no rebuild "
      "to pause; weftctl rebuild ls shows those that there are",
      member, a->rec.name,
      cluster_words_disk (a->disk[member], words, sizeof words));
  else {
    m->floor = floor;
    m->ceiling = ceiling;
    if (tune->has_paused)
      m->paused = tune->paused;
    a->pace.live_ms = 0; /* the rate is decided again at once */
    memset (&a->disk[member]->eta, 0, sizeof a->disk[member]->eta);
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

/* ---- Spares. ---- */

void
cluster_spare_add (struct cluster *c, const struct cluster_input *in,
                   const char *array, const uint8_t disk[16])
{
  struct cluster_disk *d = cluster_disk_find (c, disk);
  struct cluster_array *a;
  char words[320];

  cluster_step_begin (c, in);
  a = find (c, in->op, array, 0);
  if (a && !refuse_disk (c, in->op, a, d, disk)) {
    memcpy (d->rec.spare_of, a->rec.uuid, 16);
    cluster_step_put_disk (c, d);
    cluster_step_changed_disk (c, d);
    cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                      "Array %s has a spare: %s.", a->rec.name,
                      cluster_words_disk (d, words, sizeof words));
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_spare_drop (struct cluster *c, const struct cluster_input *in,
                    const char *array, const uint8_t disk[16])
{
  struct cluster_disk *d = cluster_disk_find (c, disk);
  struct cluster_array *a;
  char text[CLUSTER_UUID_TEXT_BYTES];

  cluster_step_begin (c, in);
  a = find (c, in->op, array, 0);
  if (a == NULL)
    ;
  else if (d == NULL || !cluster_uuid_equal (d->rec.spare_of, a->rec.uuid)) {
    cluster_words_uuid (disk, text);
    cluster_step_refuse (
      c, in->op, CLUSTER_NOT_FOUND, "no-spare",
      "array %s has no spare %s: GET /api/v1/arrays/%s lists "
      "those that it has",
      a->rec.name, text, a->rec.name);
  }
  else {
    memset (d->rec.spare_of, 0, 16);
    cluster_step_put_disk (c, d);
    cluster_step_changed_disk (c, d);
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_array_tune (struct cluster *c, const struct cluster_input *in,
                    const char *array, const struct cluster_array_tune *tune)
{
  struct cluster_array *a;

  cluster_step_begin (c, in);
  a = find (c, in->op, array, 0);
  if (a && tune->has_spare_after && tune->spare_after_ms > SPARE_AFTER_MS_MAX)
    cluster_step_refuse (c, in->op, CLUSTER_INVALID, "spare-after",
                         "a spare can't wait for longer than %" PRIu64 " s",
                         SPARE_AFTER_MS_MAX / 1000)
      ->field = "spare_after_s";
  else if (a && tune->has_slow_out && tune->slow_out_ms > SPARE_AFTER_MS_MAX)
    cluster_step_refuse (c, in->op, CLUSTER_INVALID, "slow-out",
                         "a slow member can't stay for longer than %" PRIu64
                         " s; say 0 for ever",
                         SPARE_AFTER_MS_MAX / 1000)
      ->field = "slow_out_s";
  else if (a) {
    if (tune->has_spare_after)
      a->rec.spare_after_ms = tune->spare_after_ms;
    if (tune->has_slow_out)
      a->rec.slow_out_ms = tune->slow_out_ms;
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}
