/* cluster-overdue.c: confirmations of members and sessions that an array waits
 * for (words).
 *
 * A member or session may send heartbeats and never confirm an order.  The
 * rules for silence do not see that, and others would wait without end.  So
 * each such word has a row here (enum cluster_word), and each member and
 * session has a clock for each word (struct cluster_owed). docs/PROTOCOL.md,
 * "Waits for a word", has the table.
 *
 * asked() says from the state alone whether a word is waited for now.
 * cluster_tick advances the clocks (cluster_overdue_tick): each only while the
 * debtor sends heartbeats, and while nothing else keeps it from saying the
 * word.  A word that is not said for as long as its bound is overdue (`overdue`
 * of the disk or session). The consequences are drawn beside those of silence:
 * cluster-rebuild.c puts a member out, cluster-commit.c goes on without its
 * word, cluster-session-end.c ends a session, and cluster-attach-check.c lets
 * another one replace it.
 *
 * The clocks are in memory alone: they start again with weftd.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-session.h"

/* A member's word.  A member writes one block past the page cache before it confirms, but
 * waits first for requests that already run.  An attach and a joining member give up after
 * ATTACH_MS (10 s); this is three times as long, and twice the time after which a host
 * counts a member as lost that answers nothing (io-timeout, 15 s).
 */
#define MEMBER_WORD_MS 30000
/* While the member's disk reads or writes, time counts a quarter: one of the requests may
 * be a long flush.  That makes 120 s, after which hosts give such a request up as well
 * (IO_PATIENCE times io-timeout).
 */
#define BUSY_PATIENCE 4
/* A disk counts as busy for so long after the last heartbeat that told its load. */
#define BUSY_MS 5000
/* A reader's word: its requests that run must end, each within 120 s, as above. */
#define READER_WORD_MS 120000
/* A writer's word: it writes what it has buffered, and then flushes all members.  Each of
 * the two may take 120 s.
 */
#define WRITER_WORD_MS 300000
/* A word that is owed for so long is in the verdict. */
#define OWED_SAID_MS 5000

/* The operations that wait for each word of a session. */
static const char *const waits[CLUSTER_WORDS] = {
  [WORD_PREPARED] = "no member can go out or come back",
  [WORD_EPOCH] = "no member is rebuilt, and none gets another key",
  [WORD_ARRIVED] = "reads of other hosts wait",
  [WORD_DECLARED] = "nobody gets a lease",
  [WORD_GIVEN] = "writes of that host wait",
  [WORD_ORDER] = "nobody can write there",
  [WORD_FENCES] = "the order to fence their node is not carried out",
  [WORD_LEFT] = "its service does not move",
};

/* ---- What is waited for. ---- */

/* For a member that is out, and stays out, only the sessions count that it must
 * close before it may come back.
 */
static uint64_t
member_asked (const struct cluster_array *a, unsigned m, enum cluster_word word)
{
  const struct cluster_disk *d = a->disk[m];
  bool out = cluster_copies_stays_out (a, m);
  uint64_t epoch = cluster_disk_min_epoch_wanted (d);

  switch (word) {
  case WORD_PLACE:
    return !out && !d->took_place;
  case WORD_FENCED:
    return !out && d->took_place && d->min_epoch < epoch ? epoch : 0;
  case WORD_SHUT:
    return cluster_shut_owed (a, m);
  default:
    return 0;
  }
}

static bool
member_paid (const struct cluster_array *a, unsigned m, enum cluster_word word)
{
  const struct cluster_disk *d = a->disk[m];
  uint64_t asked = d->owed[word].asked;

  return word == WORD_FENCED ? d->min_epoch >= asked
                             : member_asked (a, m, word) != asked;
}

/* Its resync at the attach, of the whole array by an order, or of its part, may take hours,
 * and before its end it says nothing of leases.
 */
static bool
declares (const struct cluster_session *s)
{
  return s->rec.part.length > 0 && !s->lessee.declared &&
         (s->lessee.equal || (s->rec.leases && s->lessee.order == 0));
}

static uint64_t
session_asked (const struct cluster *c, const struct cluster_session *s,
               enum cluster_word word)
{
  const struct cluster_array *a = s->array;
  const struct cluster_leases *l = a->leases;

  switch (word) {
  case WORD_PREPARED:
    return cluster_change_waits_for_session (a, s) ? a->rec.change.epoch : 0;
  case WORD_EPOCH:
    return s->epoch < a->rec.epoch ? a->rec.epoch : 0;
  case WORD_ARRIVED:
    return s->rec.writable && s->arrived < a->moved ? a->moved : 0;
  case WORD_DECLARED:
    return l && l->starting && declares (s);
  case WORD_GIVEN:
    return l && cluster_lease_grant_owed (a, s) ? 1 + s->lessee.gave : 0;
  case WORD_ORDER:
    return l && l->recoverer == s && s->lessee.order != l->order ? l->order : 0;
  case WORD_FENCES:
    return cluster_session_guarded (s) && s->fences < cluster_fence_number (c)
             ? cluster_fence_number (c)
             : 0;
  case WORD_LEFT:
    return cluster_candidate_leaves (c, a, s);
  default:
    return 0;
  }
}

static bool
session_paid (const struct cluster *c, const struct cluster_session *s,
              enum cluster_word word)
{
  uint64_t asked = s->owed[word].asked;

  switch (word) {
  case WORD_PREPARED:
    return s->prepared >= asked || s->epoch >= asked;
  case WORD_EPOCH:
    return s->epoch >= asked;
  case WORD_ARRIVED:
    return s->arrived >= asked;
  case WORD_GIVEN:
    return asked != 1 + s->lessee.gave;
  case WORD_FENCES:
    return s->fences >= asked;
  default:
    return session_asked (c, s, word) != asked;
  }
}

/* ---- The clocks. ---- */

/* Is it heard, and is nothing wrong with it that has rules of its own? */
static bool
member_speaks (const struct cluster *c, const struct cluster_disk *d)
{
  return cluster_disk_heard (d) && d->alive && d->told.reply &&
         !cluster_disk_failed (d) && !d->old_copy &&
         !cluster_copies_disk_hangs (d) &&
         d->doubt.kind == CLUSTER_DOUBT_NONE &&
         c->live_ms < d->spoke_live_ms + REST_MS + HEARTBEAT_MS;
}

static bool
session_speaks (const struct cluster *c, const struct cluster_session *s)
{
  return s->heard && s->alive && s->doubt.kind == CLUSTER_DOUBT_NONE &&
         c->live_ms < s->spoke_live_ms + QUIET_MS;
}

/* Can requests to each member end, as weftd itself sees it?  If not, a member
 * may keep a session from its confirmation.  (A session works without a member
 * that goes out.)
 */
static bool
members_serve (const struct cluster *c, const struct cluster_array *a)
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  cluster_change_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];

    if (states[m] != MEMBER_OUT &&
        (!member_speaks (c, d) || cluster_copies_disk_doubtful (d) ||
         d->owed[WORD_PLACE].asked || d->owed[WORD_FENCED].asked ||
         cluster_room_short (d)))
      return false;
  }
  return true;
}

static bool
is_busy (const struct cluster *c, const struct cluster_disk *d)
{
  return d->load_ms && c->now_ms < d->load_ms + BUSY_MS &&
         d->rates.disk_reads + d->rates.disk_writes > 0;
}

/* counts: the clock goes on; keeps: the clock keeps its value, though nothing
 * waits just now.
 */
static void
count (struct cluster_owed *o, uint64_t asked, bool paid, bool keeps,
       uint64_t ms, uint64_t patience_ms)
{
  if (o->asked == 0 || paid || (asked == 0 && !keeps))
    *o = (struct cluster_owed) { .asked = asked };
  else if (asked) {
    o->ms += ms;
    o->patience_ms += patience_ms;
  }
}

static void
count_member (struct cluster *c, struct cluster_array *a, unsigned m,
              uint64_t ms)
{
  struct cluster_disk *d = a->disk[m];
  uint64_t passed = member_speaks (c, d) ? ms : 0;
  enum cluster_word before = d->overdue;
  char words[320];

  d->overdue = WORD_NONE;
  for (enum cluster_word w = WORD_PLACE; w <= WORD_SHUT; w++) {
    /* A member that the writer gets back is asked again and again, with pauses. */
    bool keeps = w == WORD_FENCED && !cluster_copies_stays_out (a, m);

    count (&d->owed[w], member_asked (a, m, w), member_paid (a, m, w), keeps,
           passed, passed / (is_busy (c, d) ? BUSY_PATIENCE : 1));
    if (d->owed[w].patience_ms >= MEMBER_WORD_MS)
      d->overdue = w;
  }
  if (d->overdue == before)
    return;
  cluster_step_changed_disk (c, d);
  if (d->overdue)
    cluster_step_log (
      c, CLUSTER_ERROR, "array", a->rec.name,
      "Member %u of array %s (%s) sends heartbeats, but has not %s "
      "for %" PRIu64 " s.",
      m, a->rec.name, cluster_words_disk (d, words, sizeof words),
      cluster_word_owed (d->overdue), d->owed[d->overdue].ms / 1000);
}

static void
count_session (struct cluster *c, struct cluster_session *s, uint64_t ms)
{
  uint64_t bound_ms = s->rec.writable ? WRITER_WORD_MS : READER_WORD_MS;
  uint64_t passed = session_speaks (c, s) ? ms : 0;
  enum cluster_word before = s->overdue;

  s->overdue = WORD_NONE;
  for (enum cluster_word w = WORD_PREPARED; w < CLUSTER_WORDS; w++) {
    /* A host asks for a lease again and again, with pauses. */
    count (&s->owed[w], session_asked (c, s, w), session_paid (c, s, w),
           w == WORD_GIVEN, passed, passed);
    if (s->owed[w].patience_ms >= bound_ms)
      s->overdue = w;
  }
  if (s->overdue == before)
    return;
  cluster_step_changed_session (c, s);
  if (s->overdue)
    cluster_step_log (
      c, CLUSTER_ERROR, "session", s->rec.array_name,
      "Node %s, process %" PRIu64 ", which has attached array %s, "
      "sends heartbeats, but has not %s for %" PRIu64 " s.",
      s->rec.node, s->rec.pid, s->rec.array_name,
      cluster_word_owed (s->overdue), s->owed[s->overdue].ms / 1000);
}

/* While the array is frozen, or weftd takes no changes, nothing comes of any word. */
void
cluster_overdue_tick (struct cluster *c, struct cluster_array *a)
{
  uint64_t ms = a->owed_live_ms ? c->live_ms - a->owed_live_ms : 0;
  struct cluster_session *s;
  bool serve;

  a->owed_live_ms = c->live_ms;
  if (c->read_only[0] || cluster_array_doubted (c, a, NULL, 0))
    ms = 0;
  for (unsigned m = 0; m < a->layout.members; m++)
    count_member (c, a, m, ms);
  serve = members_serve (c, a);
  TAILQ_FOREACH (s, &a->sessions, array_link)
    count_session (c, s, serve ? ms : 0);
}

/* ---- In words. ---- */

/* The word that is owed for the longest time, if that is long; WORD_NONE: none is. */
static enum cluster_word
longest (const struct cluster_owed owed[])
{
  enum cluster_word word = WORD_NONE;

  for (enum cluster_word w = WORD_NONE + 1; w < CLUSTER_WORDS; w++)
    if (owed[w].ms >= OWED_SAID_MS &&
        (word == WORD_NONE || owed[w].ms > owed[word].ms))
      word = w;
  return word;
}

bool
cluster_member_owes (const struct cluster_array *a, unsigned m, char *text,
                     size_t size)
{
  const struct cluster_disk *d = a->disk[m];
  enum cluster_word w = longest (d->owed);
  char words[320];

  if (w == WORD_NONE || !d->alive)
    return false;
  snprintf (
    text, size,
    "Member %u of array %s (%s) sends heartbeats, but has not %s for %" PRIu64
    " s. %s. See its log, and start its process again.",
    m, a->rec.name, cluster_words_disk (d, words, sizeof words),
    cluster_word_owed (w), d->owed[w].ms / 1000,
    !a->rec.ready ? "The array is not ready before all members have done so"
    : a->rec.member[m].state == MEMBER_OUT
      ? "The member stays out until it does"
    : !cluster_copies_can_leave_out (a, m)
      ? "The member is not put out, because it has the only copy of some data"
      : "If that lasts for 30 s (120 s if its disk is busy), the member goes "
        "out");
  return true;
}

bool
cluster_session_owes (const struct cluster_session *s, char *text, size_t size)
{
  enum cluster_word w = longest (s->owed);

  if (w == WORD_NONE || s->rec.ended || !s->alive)
    return false;
  snprintf (text, size,
            "Node %s, process %" PRIu64 ", which has attached array %s, sends "
            "heartbeats, but has not %s for %" PRIu64 " s: %s. %s See its log, "
            "or end it (weftctl session evict %016" PRIx64 ").",
            s->rec.node, s->rec.pid, s->rec.array_name, cluster_word_owed (w),
            s->owed[w].ms / 1000, waits[w],
            !s->rec.writable ? "If that lasts for 120 s, its session ends."
            : s->rec.part.length > 0
              ? "If that lasts for 300 s, its session ends for another that "
                "writes."
            : w == WORD_FENCES || w == WORD_LEFT
              ? "If that lasts for 300 s, its session ends."
              : "If that lasts for 300 s, another process may attach the array "
                "in its place.",
            s->rec.id);
  return true;
}
