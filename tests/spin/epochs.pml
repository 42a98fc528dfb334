/* epochs.pml: epoch change, fence, joining, and the setting and clearing of
 * intent bits, in the small (docs/PROTOCOL.md).
 *
 * One extent with two copies: member 0 has the data, member 1 the image.  A
 * value is the number of the write that made it.  weftd's steps are the durable
 * ones, so a crash of it between two of them is any delay.  A host may die at
 * any step, and another takes over.  A connection may break with a write on it
 * that is carried out later, or never (a stray).  A member may lose its power,
 * and with it what was not flushed.
 *
 * With -DTHROUGH a write may also go to both copies at once.  Each other -D below takes
 * one rule away; spin must then find what goes wrong (tests/spin/check).
 */

#ifndef WRITES
#define WRITES 3   /* in all */
#define HOSTS 2    /* one after the other */
#define BREAKS 2   /* of connections */
#define CUTS 1     /* of a member's power */
#define EPOCHS 9   /* no new change begins beyond */
#endif

mtype = { IN_SYNC, OUT, JOINING };

/* weftd, all durable. */
byte epoch = 1;
mtype state[2] = IN_SYNC;
byte change;            /* PREPARED; 0: none */
mtype to[2];            /* its states */
bool confirm[2];        /* members that must confirm it */
bool ask;               /* sessions must be prepared for it */
byte attaching;         /* the host that it is to grant; 0: none */
byte holder = 0;        /* the host that was granted last; 0: none yet */
bool ended;             /* its session is over, though it may not know */
byte fence[2] = 1;

/* Members. */
byte val[2], dur[2];    /* what a read finds; what is stable */
bool intent[2];         /* of the intent map: always durable before a write */
byte min_epoch[2] = 1;  /* durable */
bool todo[2];           /* joining: the extent is to be copied */
bool gathered[2];       /* joining: the list is made */
bool has_read[2], peers[2]; /* joining: the peer's bit, as it was read */
bool noted[2];          /* joining: a write was dropped before they were */
byte stray[2], stray_epoch[2], stray_host[2]; /* value 0: none */

/* The host that lives. */
byte host;              /* its number; 0: none */
mtype know[2];          /* states, as it has heard */
byte host_epoch;
byte line[2];           /* epoch of its connection; 0: broken */
bool lost[2], counts[2];
byte buffered[2];       /* a copy yet to be sent; 0: none */
byte pending;           /* a write that is to be done again; 0: none */
byte acked;             /* its last acknowledged write */
byte prepared;
bool clean;             /* flushed since the last write, nothing buffered */

byte issued, flushed;   /* of all hosts: numbers of writes */
byte breaks, cuts;

#define other(m) (1 - (m))
/* The writer is there, and weftd listens to it. */
#define speaks() (host != 0 && host == holder && !ended)
#define usable(m) (know[m] == IN_SYNC && !lost[m])

/* The promise: what was flushed is stable on every copy that counts. */
#define PROMISE \
  ((state[0] != IN_SYNC || dur[0] >= flushed) && \
   (state[1] != IN_SYNC || dur[1] >= flushed))
/* Where no bit stands the copies are the same. */
#define BITS \
  (intent[0] || intent[1] || state[0] != IN_SYNC || state[1] != IN_SYNC || \
   host != 0 || val[0] == val[1])
#define COPY (state[0] == IN_SYNC || state[1] == IN_SYNC)

/* A member carries a write out. */
inline execute (m, v, h)
{
  /* Whoever held it before is fenced, where it matters. */
  assert (holder == 0 || h == holder || state[m] == OUT);
  if
  :: state[m] == JOINING && todo[m] -> /* dropped: the copy will bring it */
#ifdef FORGET_DROPPED
     skip
#else
     noted[m] = true
#endif
  :: else -> intent[m] = true; val[m] = v
  fi
}

#ifdef NO_EPOCH_CHECK
#define admitted(m, e) (true)
#else
#define admitted(m, e) ((e) >= min_epoch[m])
#endif

inline send (m, v, ok)
{
  if
  :: line[m] != 0 && admitted (m, line[m]) ->
     execute (m, v, host);
     ok = true
  :: line[m] != 0 && breaks < BREAKS -> /* breaks with the write on it */
     breaks++;
     stray[m] = v;
     stray_epoch[m] = line[m];
     stray_host[m] = host;
     line[m] = 0;
     ok = false
  :: line[m] == 0 || !admitted (m, line[m]) ->
     line[m] = 0;
     ok = false
  fi
}

/* The host loses a member: nothing more is asked of it. */
inline lose (m)
{
  lost[m] = true;
  if
  :: know[m] == JOINING && !counts[m] -> buffered[m] = 0
  :: else -> skip
  fi
}

/* Everything is to do until the list is made. */
inline begin_join (m)
{
  gathered[m] = false; has_read[m] = false; peers[m] = false;
  todo[m] = true; noted[m] = false
}

inline next_write ()
{
  if
  :: pending == 0 -> issued++; pending = issued
  :: else -> skip
  fi;
  v = pending; clean = false
}

active proctype Weftd ()
{
  byte m;

  do
  /* The writer has lost a member: recorded at once, unless it is the last
   * copy.  The host goes on when it hears of it.
   */
  :: atomic { change == 0 && speaks() && lost[0] &&
       state[0] == IN_SYNC && state[1] == IN_SYNC ->
       epoch++; state[0] = OUT }
  :: atomic { change == 0 && speaks() && lost[1] &&
       state[1] == IN_SYNC && state[0] == IN_SYNC ->
       epoch++; state[1] = OUT }
  /* A joiner that is lost: out, whatever is PREPARED. */
  :: atomic { speaks() && attaching == 0 && lost[0] &&
       state[0] == JOINING && epoch < EPOCHS + 3 ->
       epoch = (change > epoch -> change : epoch) + 1;
       change = 0; state[0] = OUT }
  :: atomic { speaks() && attaching == 0 && lost[1] &&
       state[1] == JOINING && epoch < EPOCHS + 3 ->
       epoch = (change > epoch -> change : epoch) + 1;
       change = 0; state[1] = OUT }
  /* A member that is out is taken back: it alone is fenced. */
  :: atomic { change == 0 && epoch < EPOCHS ->
       select (m : 0 .. 1);
       if
       :: state[m] == OUT ->
          change = epoch + 1;
          if
          :: min_epoch[m] > change -> change = min_epoch[m]
          :: else -> skip
          fi;
          to[m] = JOINING; to[other (m)] = state[other (m)];
#ifndef NO_JOIN_FENCE
          confirm[m] = true;
#endif
          ask = false
       :: else -> skip
       fi }
  /* A last copy that is back: the same states, a new epoch for it. */
  :: atomic { change == 0 && epoch < EPOCHS && speaks() ->
       select (m : 0 .. 1);
       if
       :: state[m] == IN_SYNC && lost[m] && state[other (m)] != IN_SYNC ->
          change = epoch + 1;
          if
          :: min_epoch[m] > change -> change = min_epoch[m]
          :: else -> skip
          fi;
          to[0] = state[0]; to[1] = state[1];
          confirm[m] = true;
          ask = false
       :: else -> skip
       fi }
  /* A joiner has nothing left to do. */
  :: atomic { change == 0 && epoch < EPOCHS ->
       select (m : 0 .. 1);
       if
       :: state[m] == JOINING && gathered[m] && !todo[m] ->
          change = epoch + 1;
          to[m] = IN_SYNC; to[other (m)] = state[other (m)];
          ask = (holder != 0 && !ended)
#ifdef NO_PREPARE
          ; ask = false
#endif
       :: else -> skip
       fi }
  /* The holder is silent (dead), or there is none: another host attaches. */
  :: atomic { change == 0 && epoch < EPOCHS && (host == 0 || ended) &&
       attaching == 0 && holder < HOSTS ->
       attaching = holder + 1;
       change = epoch + 1;
       for (m : 0 .. 1) {
         if
         :: min_epoch[m] > change -> change = min_epoch[m]
         :: else -> skip
         fi
       }
       for (m : 0 .. 1) {
         to[m] = state[m];
#ifndef NO_ATTACH_FENCE
         confirm[m] = (state[m] != OUT)
#endif
       };
       ask = false }
  /* The session is ended by an administrator; its host may live, unheard. */
  :: atomic { change == 0 && epoch < EPOCHS && holder != 0 && !ended ->
       ended = true;
       change = epoch + 1;
       for (m : 0 .. 1) {
         if
         :: min_epoch[m] > change -> change = min_epoch[m]
         :: else -> skip
         fi
       }
       for (m : 0 .. 1) {
         to[m] = state[m];
#ifdef NO_DETACH_FENCE
         confirm[m] = (state[m] == JOINING)
#else
         confirm[m] = (state[m] != OUT)
#endif
       };
       ask = false }
  /* COMMIT. */
  :: atomic { change != 0 &&
       (!confirm[0] || min_epoch[0] >= change) &&
       (!confirm[1] || min_epoch[1] >= change) &&
       (!ask || prepared == change) ->
       for (m : 0 .. 1) {
         if
         :: to[m] == JOINING && (state[m] == OUT || confirm[m]) ->
            begin_join (m)
         :: else -> skip
         fi;
         state[m] = to[m];
         if
         :: confirm[m] -> fence[m] = change
         :: else -> skip
         fi;
         confirm[m] = false
       };
       epoch = change; change = 0; ask = false;
       if
       :: attaching != 0 ->
          holder = attaching; attaching = 0; host = holder;
          host_epoch = epoch; pending = 0; prepared = 0; clean = false;
          ended = false;
          for (m : 0 .. 1) {
            know[m] = state[m]; lost[m] = false; counts[m] = false;
            buffered[m] = 0;
            line[m] = (state[m] == OUT -> 0 : epoch)
          };
          /* Resync: before a client is served the copies are made equal, and
           * from the data copy if that is in-sync.
           */
          if
          :: state[0] == IN_SYNC && state[1] == IN_SYNC &&
             (intent[0] || intent[1]) -> val[1] = val[0]
          :: else -> skip
          fi;
          acked = (state[0] == IN_SYNC -> val[0] : val[1]);
          assert (acked >= flushed)
       :: else -> skip
       fi }
  od
}

active [2] proctype Member ()
{
  byte me = _pid - 1, p;

  p = other (me);
  do
  /* Confirms a PREPARED epoch: durable, nothing older runs from here on. */
  :: atomic { change != 0 && confirm[me] && min_epoch[me] < change ->
       min_epoch[me] = change }
  /* What was on a broken connection is carried out after all, or never. */
  :: atomic { stray[me] != 0 ->
       if
       :: admitted (me, stray_epoch[me]) ->
          execute (me, stray[me], stray_host[me])
       :: true -> skip
       fi;
       stray[me] = 0 }
  /* Joining: the writer sends us its writes.  Read the peer's map ... */
  :: atomic { state[me] == JOINING && !gathered[me] && !has_read[me] &&
       (holder == 0 || ended || host_epoch >= fence[me]) ->
       has_read[me] = true;
       peers[me] = intent[p] }
  /* ... and make the list of it, of our own, and of what was dropped. */
  :: atomic { state[me] == JOINING && !gathered[me] && has_read[me] ->
       gathered[me] = true; has_read[me] = false;
#ifdef IGNORE_OWN_BITS
       todo[me] = peers[me] || noted[me];
#else
       todo[me] = intent[me] || peers[me] || noted[me];
#endif
       peers[me] = false; noted[me] = false }
  /* Copies: from a copy that is in-sync; stable before the bit falls. */
  :: atomic { state[me] == JOINING && gathered[me] && todo[me] &&
       state[p] == IN_SYNC ->
       val[me] = val[p]; dur[p] = val[p]; dur[me] = val[me];
       todo[me] = false }
  /* A power cut; what starts again refuses what it has served before. */
  :: atomic { cuts < CUTS ->
       cuts++;
       val[me] = dur[me];
       stray[me] = 0;
       line[me] = 0;
       min_epoch[me] = (epoch > change -> epoch : change) + 1;
       if
       :: state[me] == JOINING ->
          begin_join (me)
       :: else -> skip
       fi }
  od
}

active proctype Host ()
{
  byte m, v;
  bool ok;

  do
  /* A write: the data first, then the image is buffered.  What is still
   * buffered from when member 0 was joining must not come after it.
   */
  :: atomic { host != 0 && (pending != 0 || issued < WRITES) && usable (0) &&
#ifndef OVERTAKE_BUFFERED
       buffered[0] == 0 &&
#endif
       buffered[1] == 0 ->
       next_write ();
       send (0, v, ok);
       if
       :: ok ->
          acked = v; pending = 0;
          if
          :: know[1] != OUT && !(know[1] == JOINING && lost[1]) ->
             buffered[1] = v
          :: else -> skip
          fi
       :: !ok -> lose (0)
       fi }
#if defined THROUGH || defined OVERTAKE_THROUGH
  /* A write that goes through: both copies at once, if nothing older is buffered
   * for either.  If one of them fails it is done again, when that is recorded.
   * (Only one of them has it when the host dies: that is a connection which breaks
   * with the other.)
   */
  :: atomic { host != 0 && (pending != 0 || issued < WRITES) &&
       usable (0) && usable (1) &&
#ifndef OVERTAKE_THROUGH
       buffered[1] == 0 &&
#endif
       buffered[0] == 0 ->
       next_write ();
       send (0, v, ok);
       if
       :: ok -> skip
       :: !ok -> lose (0)
       fi;
       send (1, v, ok);
       if
       :: ok -> skip
       :: !ok -> lose (1)
       fi;
       if
       :: !lost[0] && !lost[1] -> acked = v; pending = 0
       :: else -> skip
       fi }
#endif
  /* Degraded: the survivor must have it; the joiner's copy follows. */
  :: atomic { host != 0 && (pending != 0 || issued < WRITES) &&
       know[0] != IN_SYNC && usable (1) && buffered[0] == 0 ->
       next_write ();
       send (1, v, ok);
       if
       :: ok ->
          acked = v; pending = 0;
          if
          :: know[0] == JOINING && !lost[0] -> buffered[0] = v
          :: else -> skip
          fi
       :: !ok -> lose (1)
       fi }
  /* A buffered copy is sent. */
  :: atomic { host != 0 ->
       select (m : 0 .. 1);
       if
       :: buffered[m] != 0 && !lost[m] && know[m] != OUT ->
          send (m, buffered[m], ok);
          if
          :: ok -> buffered[m] = 0
          :: !ok -> lose (m)
          fi
       :: else -> skip
       fi }
  /* FLUSH: every copy that counts is drained and stable. */
  :: atomic { host != 0 && acked > flushed &&
#ifdef FLUSH_BEFORE_COMMIT
       (know[0] != IN_SYNC || lost[0] || buffered[0] == 0) &&
       (know[1] != IN_SYNC || lost[1] || buffered[1] == 0)
#else
       (know[0] != IN_SYNC && !counts[0] || !lost[0] && buffered[0] == 0) &&
       (know[1] != IN_SYNC && !counts[1] || !lost[1] && buffered[1] == 0)
#endif
       ->
       v = acked;
       ok = true;
       for (m : 0 .. 1) {
         if
         :: (know[m] == IN_SYNC || counts[m]) && !lost[m] ->
            if
            :: line[m] != 0 && admitted (m, line[m]) -> dur[m] = val[m]
            :: else -> ok = false; lose (m)
            fi
         :: else -> skip
         fi
       };
       if
       :: ok ->
          flushed = v;
          clean = (know[0] == IN_SYNC && know[1] == IN_SYNC && pending == 0)
       :: else -> skip
       fi }
  /* An idle extent's bits fall, when all is flushed on both. */
  :: atomic { speaks() && (intent[0] || intent[1]) &&
       line[0] != 0 && admitted (0, line[0]) &&
       line[1] != 0 && admitted (1, line[1]) &&
#ifdef CLEAR_UNFLUSHED
       know[0] == IN_SYNC && know[1] == IN_SYNC
#else
       clean && usable (0) && usable (1) && buffered[0] == 0 && buffered[1] == 0
#endif
       ->
       intent[0] = false; intent[1] = false }
  /* Hears a new epoch: out members are done with, others are connected. */
  :: atomic { speaks() && host_epoch < epoch ->
       host_epoch = epoch;
       for (m : 0 .. 1) {
         if
         :: state[m] == OUT -> lost[m] = false; buffered[m] = 0; line[m] = 0
         :: state[m] != OUT && (know[m] == OUT || lost[m]) &&
            min_epoch[m] <= epoch && (know[m] == OUT || fence[m] == epoch) ->
            line[m] = epoch; lost[m] = false;
            if
            :: (know[m] == IN_SYNC || counts[m]) && state[m] == IN_SYNC ->
               acked = 0 /* a last copy is back: the next FLUSH fails */
            :: else -> skip
            fi
         :: else -> skip
         fi;
         if
         :: state[m] == JOINING && know[m] == IN_SYNC -> lost[m] = true
         :: else -> skip
         fi;
         know[m] = state[m];
         counts[m] = false
       };
       clean = false }
  /* PREPARED: the joiner counts; after a FLUSH of all, we say so. */
  :: atomic { speaks() && change != 0 && ask &&
       host_epoch == epoch && prepared != change ->
       for (m : 0 .. 1) {
         if
         :: to[m] == IN_SYNC && know[m] == JOINING -> counts[m] = true
         :: else -> skip
         fi
       } }
  :: atomic { speaks() && change != 0 && ask &&
       prepared != change && (counts[0] || counts[1]) ->
       m = (counts[0] -> 0 : 1);
       if
       :: !lost[m] && buffered[m] == 0 && line[m] != 0 &&
          admitted (m, line[m]) &&
#ifndef PREPARE_WITHOUT_SOURCE
          /* Its source has not begun another life since: what was
           * acknowledged was there to be copied.
           */
          !lost[other (m)] && buffered[other (m)] == 0 &&
          line[other (m)] != 0 && admitted (other (m), line[other (m)]) &&
#endif
          true ->
#ifndef PREPARE_UNFLUSHED
          dur[m] = val[m]; dur[other (m)] = val[other (m)];
#endif
          prepared = change
       :: else -> skip
       fi }
  /* Dies; what it had buffered is gone. */
  :: atomic { host != 0 && host < HOSTS ->
       for (m : 0 .. 1) {
         if
         :: stray[m] == 0 && line[m] != 0 && buffered[m] != 0 ->
            stray[m] = buffered[m]; stray_epoch[m] = line[m];
            stray_host[m] = host
         :: true -> skip
         fi;
         line[m] = 0; buffered[m] = 0
       };
       host = 0 }
  od
}

/* Looked at after every step. */
active proctype Judge ()
{
  atomic { !(PROMISE && BITS && COPY) -> assert (PROMISE); assert (BITS);
    assert (COPY) }
}
