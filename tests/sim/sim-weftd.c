/* sim-weftd.c: weftd, the part of the host that listens to it, and how members
 * join.
 *
 * weftd records a lost member as out, if no data is lost with it.  It does so, or records
 * that a member is in-sync again, either at once or as if the array had other sessions:
 * prepared first.  A member with a last copy is waited for.  A member that is out comes
 * back, with or without its unstable data, and joins: its possibly missing data is dirty
 * in its own map or in its peers'.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "sim-world.h"

static unsigned
members (void)
{
  return w.config.layout.members;
}

static void
push_states (enum event_kind kind, uint64_t epoch,
             const enum member_state states[])
{
  struct event *e = event_new (kind, sim_below (20 * MS));

  e->epoch = epoch;
  memcpy (e->states, states, members () * sizeof states[0]);
  memcpy (e->fence, w.fence, sizeof e->fence);
}

static bool
same_group (unsigned member, unsigned other)
{
  return member / w.config.layout.n == other / w.config.layout.n;
}

/* A third copy, that joins, goes out with one that it may have copied from: all
 * of it is to do again.
 */
static bool
source_goes (unsigned member, const enum member_state states[])
{
  bool goes = false;

  for (unsigned i = 0; i < members (); i++)
    goes |= same_group (member, i) && w.state[i] == MEMBER_IN_SYNC &&
            states[i] == MEMBER_OUT;
  return goes && w.config.layout.copies > 2 &&
         w.state[member] == MEMBER_JOINING && states[member] == MEMBER_OUT;
}

static void
commit (uint64_t epoch, const enum member_state states[])
{
  w.change_epoch = 0;
  for (unsigned i = 0; i < members (); i++)
    if (source_goes (i, states))
      sim_member_forget (&w.members[i]);
  for (unsigned i = 0; i < members (); i++) {
    w.state[i] = states[i];
    w.recorded[i] = states[i] != MEMBER_IN_SYNC;
    if (states[i] != MEMBER_JOINING)
      w.members[i].phase = SIM_SERVING;
  }
  sim_trace ("weftd commits epoch %llu", (unsigned long long) epoch);
  push_states (EVENT_COMMIT, epoch, states);
}

static void
prepare (const enum member_state states[])
{
  w.change_epoch = ++w.epoch;
  memcpy (w.change, states, sizeof w.change);
  sim_trace ("weftd prepares epoch %llu", (unsigned long long) w.epoch);
  push_states (EVENT_PREPARE, w.epoch, states);
}

static bool
last_copy (unsigned member)
{
  bool lost[ARRAY_MEMBERS_MAX] = { false };

  for (unsigned i = 0; i < members (); i++)
    lost[i] = i == member || w.state[i] != MEMBER_IN_SYNC ||
              (w.change_epoch && w.change[i] == MEMBER_OUT);
  return w.rejoins && layout_loss (&w.config.layout, lost, NULL) > 0;
}

/* Must the host be prepared for these states?  Not where it is alone, and has
 * just said itself that a member is lost; there may be readers, though.
 */
static bool
needs_host (const enum member_state states[])
{
  bool readers = sim_chance (50);

  for (unsigned i = 0; i < members (); i++)
    if ((w.state[i] == MEMBER_IN_SYNC && states[i] == MEMBER_OUT &&
         (readers || w.change_epoch)) ||
        (w.state[i] == MEMBER_JOINING && states[i] == MEMBER_IN_SYNC))
      return true;
  return false;
}

static void
leave_out (unsigned member)
{
  enum member_state states[ARRAY_MEMBERS_MAX];
  bool was_in_sync = w.state[member] == MEMBER_IN_SYNC;

  memcpy (states, w.change_epoch ? w.change : w.state, sizeof states);
  states[member] = MEMBER_OUT;
  /* A third copy may have been made from it. */
  for (unsigned i = 0; i < members () && was_in_sync; i++)
    if (w.config.layout.copies > 2 && w.state[i] == MEMBER_JOINING)
      states[i] = MEMBER_OUT;
  for (unsigned i = 0; i < members (); i++)
    if (states[i] == MEMBER_OUT && w.state[i] != MEMBER_OUT && w.rejoins)
      event_new (EVENT_REJOIN, sim_below (400 * MS))->member = i;
  if (w.rejoins && needs_host (states))
    prepare (states);
  else
    commit (++w.epoch, states);
}

/* weftd hears that a member is lost, and hears it again until it is settled. */
void
weftd_lost (unsigned member)
{
  bool going = w.change_epoch && w.change[member] == MEMBER_OUT;

  if (w.state[member] == MEMBER_OUT)
    return;
  if (w.trouble[member] == FINE) {
    if (w.noticed[member])
      event_new (EVENT_RECORD, 100 * MS)->member = member;
    return;
  }
  if (w.state[member] == MEMBER_IN_SYNC && last_copy (member)) {
    if (!w.returning[member])
      event_new (EVENT_RETURN, sim_below (300 * MS))->member = member;
    w.returning[member] = true;
  }
  else if (!going)
    leave_out (member);
  if (w.state[member] != MEMBER_OUT)
    event_new (EVENT_RECORD, 100 * MS)->member = member;
}

static void
gone_nowhere (uint64_t offset)
{
  (void) offset;
}

static unsigned returning;

static void
gone (uint64_t offset)
{
  judge_gone (returning, offset);
}

/* Nothing that was asked of it before is carried out any more. */
static void
fence (unsigned member, uint64_t epoch)
{
  w.trouble[member] = FINE;
  w.life[member]++;
  w.fence[member] = epoch;
}

/* A last copy is there again. */
static void
come_back (unsigned member)
{
  bool cut = sim_chance (60);

  w.returning[member] = false;
  if (w.state[member] != MEMBER_IN_SYNC || w.trouble[member] == FINE)
    return;
  sim_trace ("member %u is back%s", member, cut ? " after a power cut" : "");
  returning = member;
  if (cut)
    sim_member_cut (&w.members[member], gone);
  w.lapsed[member] |= cut;
  w.returns++;
  fence (member, ++w.epoch);
  commit (w.epoch, w.state);
}

static void
rejoin (unsigned member)
{
  enum member_state states[ARRAY_MEMBERS_MAX];

  if (w.state[member] != MEMBER_OUT) { /* it is still going */
    if (w.change_epoch && w.change[member] == MEMBER_OUT)
      event_new (EVENT_REJOIN, 50 * MS)->member = member;
    return;
  }
  if (w.change_epoch) { /* one after the other */
    event_new (EVENT_REJOIN, 20 * MS)->member = member;
    return;
  }
  w.lapsed[member] = true;
  if (sim_chance (50))
    sim_member_cut (&w.members[member], gone_nowhere);
  sim_trace ("member %u joins", member);
  w.joins++;
  sim_member_wait (&w.members[member]);
  fence (member, ++w.epoch);
  memcpy (states, w.state, sizeof states);
  states[member] = MEMBER_JOINING;
  commit (w.epoch, states);
  event_new (EVENT_COPY, 5 * MS)->member = member;
}

/* Data that is dirty at a peer may be missing here. */
static void
gather (unsigned member)
{
  const struct layout *l = &w.config.layout;
  struct sim_member *m = &w.members[member];

  for (uint64_t at = 0; at < m->bytes; at += KiB (4)) {
    struct layout_piece p;
    uint64_t offset;
    uint32_t length;

    if (layout_unmap (l, member, at, &offset, &length) == -1)
      continue;
    layout_map (l, offset, KiB (4), &p);
    for (unsigned c = 0; c < p.copies; c++)
      if (w.state[p.copy[c].member] == MEMBER_IN_SYNC &&
          sim_member_dirty (&w.members[p.copy[c].member],
                            p.copy[c].offset / m->extent_bytes))
        m->maps[SIM_TODO][at / m->extent_bytes] = true;
  }
  m->phase = SIM_COPYING;
}

/* Read the extent that is being copied from the first copies that are in-sync,
 * or flush them; false: one is not there.
 */
static bool
ask_peers (unsigned member, uint64_t extent, uint8_t *buf)
{
  const struct layout *l = &w.config.layout;
  struct sim_member *m = &w.members[member];
  uint64_t start = extent * m->extent_bytes, at;

  for (at = start; at < start + m->extent_bytes && at < m->bytes;
       at += grain_bytes) {
    struct layout_piece p;
    unsigned c = 0, from;
    uint64_t offset;
    uint32_t length;

    if (layout_unmap (l, member, at, &offset, &length) == -1)
      continue;
    layout_map (l, offset, grain_bytes, &p);
    while (c < p.copies && w.state[p.copy[c].member] != MEMBER_IN_SYNC)
      c++;
    if (c == p.copies)
      return false;
    from = p.copy[c].member;
    if (w.trouble[from] != FINE) {
      weftd_lost (from);
      return false;
    }
    if (buf)
      memcpy (buf + (at - start), w.members[from].now + p.copy[c].offset,
              grain_bytes);
    else
      memcpy (w.members[from].durable, w.members[from].now, m->bytes);
  }
  return true;
}

static void
make_stable (unsigned member)
{
  struct sim_member *m = &w.members[member];
  bool keep = false;

  /* As core/member/member-join.c has it: a third copy looks here for what it lacks,
   * if whom we copied from is gone then.
   */
  for (unsigned i = 0; i < members (); i++)
    keep |= w.config.layout.kind == LAYOUT_RAID1 && i != member &&
            same_group (member, i) && w.state[i] != MEMBER_IN_SYNC;
  for (uint64_t e = 0; e * m->extent_bytes < m->bytes; e++)
    if (m->maps[SIM_COPIED][e] && !ask_peers (member, e, NULL))
      return;
  memcpy (m->durable, m->now, m->bytes);
  for (uint64_t e = 0; e * m->extent_bytes < m->bytes; e++)
    if (m->maps[SIM_COPIED][e]) {
      m->maps[SIM_TODO][e] = m->maps[SIM_COPIED][e] = false;
      m->maps[SIM_LEFT][e] |= keep;
    }
}

/* An extent to do; UINT64_MAX: all are copied.  *any: some are not stable. */
static uint64_t
to_do (const struct sim_member *m, bool *any)
{
  uint64_t extents = (m->bytes + m->extent_bytes - 1) / m->extent_bytes;
  uint64_t from = sim_below (extents);

  *any = false;
  for (uint64_t i = 0; i < extents; i++) {
    uint64_t e = (from + i) % extents;

    *any |= m->maps[SIM_TODO][e];
    if (m->maps[SIM_TODO][e] && !m->maps[SIM_COPIED][e])
      return e;
  }
  return UINT64_MAX;
}

/* The last extent may be shorter. */
static uint64_t
length_of (const struct sim_member *m, uint64_t extent)
{
  uint64_t left = m->bytes - extent * m->extent_bytes;

  return left < m->extent_bytes ? left : m->extent_bytes;
}

static void
copy_some (unsigned member)
{
  static uint8_t buf[ARRAY_MEMBERS_MAX][KiB (64)];
  struct sim_member *m = &w.members[member];
  uint64_t e = m->copying;
  enum member_state states[ARRAY_MEMBERS_MAX];
  bool any;

  if (e != UINT64_MAX) {
    m->copying = UINT64_MAX;
    memcpy (m->now + e * m->extent_bytes, buf[member], length_of (m, e));
    m->maps[SIM_COPIED][e] = true;
    return;
  }
  e = to_do (m, &any);
  if (e != UINT64_MAX && sim_chance (95)) {
    memcpy (buf[member], m->now + e * m->extent_bytes, length_of (m, e));
    if (ask_peers (member, e, buf[member]))
      m->copying = e;
  }
  else if (any)
    make_stable (member);
  else if (!w.change_epoch) {
    memcpy (states, w.state, sizeof states);
    states[member] = MEMBER_IN_SYNC;
    prepare (states);
  }
}

static void
join (unsigned member)
{
  if (w.state[member] != MEMBER_JOINING || w.stopped)
    return;
  if (w.trouble[member] != FINE) {
    weftd_lost (member);
    return;
  }
  if (w.members[member].phase == SIM_COPYING)
    copy_some (member);
  else if (array_epoch (w.array) >= w.fence[member] && !w.noticed[member] &&
           w.connected[member] == w.life[member])
    gather (member);
  event_new (EVENT_COPY, sim_below (w.sluggish ? 40 * MS : 4 * MS))->member =
    member;
}

/* The host's message to the engine: a joining member is out until there is a
 * connection. */
static void
tell_states (void)
{
  enum member_state seen[ARRAY_MEMBERS_MAX] = { 0 };

  for (unsigned i = 0; i < members (); i++) {
    seen[i] = w.heard_state[i] == MEMBER_JOINING && !w.joined[i]
                ? MEMBER_OUT
                : w.heard_state[i];
    if (seen[i] != MEMBER_OUT && seen[i] != w.seen[i])
      w.said[i] = false; /* it may be reported again */
    w.seen[i] = seen[i];
    w.heard[i] = seen[i] != MEMBER_IN_SYNC;
    w.going[i] |= seen[i] == MEMBER_OUT;
  }
  array_commit (w.array, w.heard_epoch, seen, sim_now);
  world_take_outputs ();
}

/* A new connection to a lost member, when the old one has given back all that
 * was asked on it.
 */
static void
connect_to (unsigned member)
{
  if (w.stopped || !w.noticed[member] || w.trouble[member] != FINE ||
      w.heard_state[member] == MEMBER_OUT || w.heard_epoch < w.fence[member])
    return;
  for (const struct flight *f = w.flights; f; f = f->next)
    if (f->io->member == member) {
      event_new (EVENT_CONNECT, 2 * MS)->member = member;
      return;
    }
  sim_trace ("the host is connected to member %u again", member);
  w.noticed[member] = w.said[member] = false;
  w.going[member] = w.prepared_epoch > w.heard_epoch &&
                    w.prepared[member] == MEMBER_OUT;
  w.joined[member] = true;
  w.connected[member] = w.life[member];
  w.connected_epoch[member] = w.heard_epoch;
  if (w.lapsed[member])
    judge_heard (member, w.heard_state[member] == MEMBER_IN_SYNC ||
                           (w.prepared_epoch > w.heard_epoch &&
                            w.prepared[member] == MEMBER_IN_SYNC));
  array_back (w.array, member, !w.lapsed[member], UINT64_MAX, sim_now);
  w.lapsed[member] = false;
  world_take_outputs ();
  tell_states ();
}

/* The host hears of a committed epoch. */
static void
hear_commit (const struct event *e)
{
  sim_trace ("commit of epoch %llu", (unsigned long long) e->epoch);
  if (e->epoch < w.heard_epoch) {
    array_commit (w.array, e->epoch, e->states, sim_now);
    world_take_outputs ();
    return;
  }
  for (unsigned i = 0; i < members (); i++) {
    if (e->states[i] == MEMBER_OUT ||
        (e->states[i] == MEMBER_JOINING && w.heard_state[i] == MEMBER_IN_SYNC))
      w.joined[i] = false;
    else if (!w.noticed[i] && w.connected_epoch[i] < e->fence[i])
      world_lost (i, "it refuses our connection");
    w.heard_state[i] = e->states[i];
  }
  w.heard_epoch = e->epoch;
  tell_states ();
  for (unsigned i = 0; i < members (); i++)
    connect_to (i);
}

/* Only when the member that becomes in-sync is connected. */
static void
hear_prepare (const struct event *e)
{
  bool news = e->epoch > w.heard_epoch && e->epoch > w.prepared_epoch;

  for (unsigned i = 0; i < members () && news; i++)
    if (e->states[i] == MEMBER_IN_SYNC && w.heard_state[i] != MEMBER_IN_SYNC &&
        w.noticed[i]) {
      if (e->epoch == w.change_epoch)
        push_states (EVENT_PREPARE, e->epoch, e->states);
      return;
    }
  if (news) {
    w.prepared_epoch = e->epoch;
    memcpy (w.prepared, e->states, sizeof w.prepared);
    for (unsigned i = 0; i < members (); i++)
      w.going[i] |= e->states[i] == MEMBER_OUT;
    judge_prepares ();
  }
  array_prepare (w.array, e->epoch, e->states, sim_now);
  world_take_outputs ();
}

/* The engine says that it is prepared. */
void
weftd_prepared (uint64_t epoch)
{
  bool in_sync[ARRAY_MEMBERS_MAX];

  if (epoch != w.prepared_epoch || epoch <= w.heard_epoch)
    sim_fail ("the array is prepared for epoch %llu, which is not asked",
              (unsigned long long) epoch);
  for (unsigned i = 0; i < members (); i++)
    in_sync[i] = w.prepared[i] == MEMBER_IN_SYNC && w.trouble[i] == FINE;
  judge_prepared (in_sync);
  event_new (EVENT_PREPARED, sim_below (10 * MS))->epoch = epoch;
}

void
weftd_handle (const struct event *e)
{
  switch (e->kind) {
  case EVENT_RECORD:
    if (!w.stopped)
      weftd_lost (e->member);
    break;
  case EVENT_RETURN:
    if (!w.stopped)
      come_back (e->member);
    break;
  case EVENT_REJOIN:
    if (!w.stopped)
      rejoin (e->member);
    break;
  case EVENT_COPY:
    join (e->member);
    break;
  case EVENT_COMMIT:
    hear_commit (e);
    break;
  case EVENT_CONNECT:
    connect_to (e->member);
    break;
  case EVENT_PREPARE:
    hear_prepare (e);
    break;
  case EVENT_PREPARED:
    if (e->epoch == w.change_epoch)
      commit (e->epoch, w.change);
    break;
  default:
    abort ();
  }
}
