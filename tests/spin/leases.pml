/* leases.pml: leases by range, in the small (docs/PROTOCOL.md, "Leases"; core/host/lessee.h).
 *
 * One range, with two copies: member 0 has the data, member 1 the image.  A value is the
 * number of the write that made it.  Two hosts share the array.  weftd may be started
 * again, and knows then only what is durable.  A session may be ended while its host
 * lives (it is cut off, or frozen: then it takes no step), and a host may die, with a write on
 * its way to a member.
 *
 * An ASK and a GIVE of a host are under way at once.  A call that was given up may be carried
 * out later all the same (`late`), also by a weftd that was started since.  An
 * answer to a heartbeat is heard any time later, or never.
 *
 * An ask must have the range (MUST), or has it only in its wish (WISH): its must lies beside.
 *
 * FIRST: host 0 was let in by a fence, has the whole, and owes the recovery of it.  Else the
 * range is an orphan of a third host, whose end all members have confirmed.
 *
 * READS: there is one who reads without a lease, and member 0 may go out, lost to the hosts
 * and not to who reads: then what a write needs is member 1 alone.  It goes out when all is
 * recovered and no host dies any more, for nothing is promised of a write that was not
 * answered and whose writer is gone.
 *
 * Of docs/PROTOCOL.md's rules L1 to L4 are here, L3 with READS.  Without intent bits,
 * FLUSHes and sectors, L5 and L6 are the simulator's, and L7 is a unit test's.
 *
 * Each other -D below takes one rule away; spin must then find what goes wrong
 * (tests/spin/check).
 */

#ifndef WRITES
#define WRITES 1   /* in all */
#define STARTS 1   /* of weftd, again */
#define ENDS 1     /* sessions that weftd ends; the other goes on */
#define LATE 0     /* calls that are given up: carried out later, or without an answer */
#define ASKS 1     /* in all */
#define GIVES 3    /* of one host */
#endif

#define NOBODY 2
#define ORPHAN 3
#define MUST 1
#define WISH 2

/* Answers. */
#define GRANTED 1  /* to an ASK: the range, too; to a GIVE: done */
#define WITHOUT 2  /* what was to be had, without the range */
#define DECLARE 3  /* 409 */

/* weftd.  Durable: */
byte generation = 1;
bool ended[2], to_recover = true;
/* In memory: */
#ifdef FIRST
byte owner = 0, orders = 1, order = 1, recoverer = 0, heard_order[2] = { 1, 0 };
byte last_order[2] = { 1, 0 };
#else
byte owner = ORPHAN;
byte orders;            /* ever */
byte order, recoverer = NOBODY; /* 0: none is under way */
byte heard_order[2];    /* what a host is recovering; 0: nothing */
byte last_order[2];     /* or has recovered */
#endif
bool declared[2] = true, fresh; /* fresh: who holds what is not settled yet */
byte number[2];

/* Member 0 goes out. */
#define PREPARED 1
#define COMMITTED 2
#ifdef READS
byte out;
bool arrived[2];        /* what it had begun before is on member 1 */
bool holds;             /* nothing is read without a lease */
byte from, seen = 1;    /* the member that is read so, and what was seen last */
#else
#define out 0
#endif

/* Members. */
byte val[2] = { 1, 9 };
byte due[4];            /* due[2 * m + h]: what h has sent to m; 0: nothing */
bool fence[4];          /* m refuses h */

/* Hosts. */
bool alive[2] = true;
byte known[2] = 1;      /* generation of the weftd that knows what we hold */
bool deaf[2];           /* that one has gone: it is not heard any more */
bool told[2] = true;    /* it has been told what we hold */
bool held[2], leaving[2], back[2]; /* back: left, and weftd has not answered for it */
bool revoked[2];        /* asked back, and not left yet */
byte copy[2];           /* an image in memory */
bool has_read[2];       /* recovery: the data was read, and sent to the image */
byte done_order[2];     /* to be told; 0: none */

byte asking[2];         /* the ASK under way; 0: none */
bool less[2];           /* the range was to be given back during it */
byte ask[2], ask_answer[2];

bool giving[2], resend[2];
byte gives[2];          /* number of the last GIVE */
bool give_back[2], give_all[2], give_held[2]; /* its words; all: it declares */
byte give_order[2];
bool give[2];           /* on its way */
byte give_answer[2];

/* A heartbeat's answer on its way. */
byte beat[2];           /* generation; 0: none */
bool beat_revoke[2];
byte beat_order[2];

/* A call that was given up. */
byte late, late_ask, late_ask_of;
bool late_give, late_back, late_all, late_held;
byte late_give_of, late_number, late_order;

byte issued = 1, acked = 1, asks, starts, ends;

#define other(h) (1 - (h))
#define over(h) (fence[h] && fence[2 + (h)])
#define HAS(h) (held[h] || leaving[h] || heard_order[h] != 0)
/* This host may still have an effect on members by what it believes. */
#define BELIEVES(h) (alive[h] && !over (h) && HAS (h))
#define ON_ITS_WAY(h) (due[h] != 0 && !fence[h] || due[2 + (h)] != 0 && !fence[2 + (h)])

#ifdef NO_DECLARE
#define knows_all (true)
#else
#define knows_all ((declared[0] || ended[0]) && (declared[1] || ended[1]))
#endif
#ifdef NO_SESSION_FENCE
#define all_over (true)
#else
#define all_over ((!ended[0] || over (0)) && (!ended[1] || over (1)))
#endif
#ifdef NO_NUMBER
#define is_new(h, n) (true)
#else
#define is_new(h, n) ((n) > number[h])
#endif

/* weftd carries a GIVE out. */
inline take (h, n, is_back, is_all, is_held, ord, answer)
{
  if
  :: ended[h] -> answer = 0
#ifndef NO_DECLARE
  :: !ended[h] && !declared[h] && !is_all -> answer = DECLARE
#endif
  :: else ->
     if
     :: is_new (h, n) ->
        number[h] = n;
        if
        :: is_back && owner == h -> owner = NOBODY
        :: else -> skip
        fi;
        if
        :: is_all && is_held && owner != h ->
           /* Who is honest is never taken for a liar. */
           assert (owner == NOBODY);
           owner = h
        :: is_all && !is_held && owner == h -> owner = NOBODY
        :: else -> skip
        fi;
        if
        :: is_all -> declared[h] = true
        :: else -> skip
        fi;
        if
        :: ord != 0 && ord == order && recoverer == h ->
           owner = h; order = 0; recoverer = NOBODY; to_recover = false
        :: else -> skip
        fi
     :: else -> skip
     fi;
     answer = GRANTED
  fi
}

inline forget_give (h)
{
  give_back[h] = false; give_all[h] = false; give_held[h] = false;
  give_order[h] = 0;
  giving[h] = false; give_answer[h] = 0
}

inline forget_call (h)
{
  asking[h] = 0; ask[h] = 0; ask_answer[h] = 0; less[h] = false
}

/* Has it something to hear? */
#define revokes(h) (owner == h && ask[other (h)] == MUST)
#define news(h) (known[h] != generation || deaf[h] || recoverer == h || revokes (h))

inline answer_beat (h)
{
  beat[h] = generation;
  beat_revoke[h] = revokes (h);
  beat_order[h] = (recoverer == h -> order : 0)
}

active proctype Weftd ()
{
  byte h, x;

  do
  /* Is started again. */
  :: d_step { starts < STARTS ->
       starts++; generation++;
       owner = NOBODY; order = 0; recoverer = NOBODY;
       declared[0] = false; declared[1] = false; fresh = true;
       number[0] = 0; number[1] = 0 }
  /* All who live have said what they have. */
  :: d_step { fresh && knows_all ->
       fresh = false;
       if
       :: to_recover && owner == NOBODY -> owner = ORPHAN
       :: else -> skip
       fi }
  /* A session is silent, and ends. */
  :: atomic { ends < ENDS ->
       ends++;
       select (h : 0 .. 1);
       ended[h] = true; ask[h] = 0; beat[h] = 0; beat_revoke[h] = false; beat_order[h] = 0;
       to_recover = to_recover || owner == h;
       if
       :: owner == h -> owner = ORPHAN
       :: else -> skip
       fi;
#ifndef END_UNDECLARED
       if
       :: !declared[h] -> to_recover = true /* who knows what it had */
       :: else -> skip
       fi;
#endif
       if
       :: recoverer == h -> order = 0; recoverer = NOBODY
       :: else -> skip
       fi;
       h = 0 }
#ifdef NO_RECOVER
  :: d_step { owner == ORPHAN && all_over && knows_all && !fresh ->
       owner = NOBODY; to_recover = false }
#else
  :: atomic { owner == ORPHAN && order == 0 && all_over && knows_all && !fresh ->
       if
       :: !ended[0] -> recoverer = 0
       :: !ended[1] -> recoverer = 1
       fi;
       orders++; order = orders }
#endif
  /* An ask is granted. */
  :: atomic { !fresh && knows_all && (ask[0] != 0 || ask[1] != 0) ->
       if
       :: ask[0] != 0 && !ended[0] -> h = 0
       :: ask[1] != 0 && !ended[1] -> h = 1
       :: else -> goto again
       fi;
       if
       :: owner == h || owner == NOBODY && (ask[h] == MUST || ask[other (h)] != MUST) ->
          owner = h; ask[h] = 0; ask_answer[h] = GRANTED
       :: owner != h -> ask[h] = 0; ask_answer[h] = WITHOUT
       :: else -> skip
       fi;
     again:
       h = 0 }
#ifndef NO_DECLARE
  :: d_step { ask[0] != 0 && !declared[0] -> ask[0] = 0; ask_answer[0] = DECLARE }
  :: d_step { ask[1] != 0 && !declared[1] -> ask[1] = 0; ask_answer[1] = DECLARE }
#endif
  :: d_step { give[0] -> give[0] = false;
       take (0, gives[0], give_back[0], give_all[0], give_held[0],
             give_order[0], give_answer[0]) }
  :: d_step { give[1] -> give[1] = false;
       take (1, gives[1], give_back[1], give_all[1], give_held[1],
             give_order[1], give_answer[1]) }
  /* What was given up is carried out after all; nobody hears the answer. */
  :: d_step { late_ask != 0 &&
       !ended[late_ask_of] && declared[late_ask_of] && !fresh && knows_all &&
       owner == NOBODY ->
       owner = late_ask_of; late_ask = 0; late_ask_of = 0 }
  :: d_step { late_give ->
       late_give = false;
       take (late_give_of, late_number, late_back, late_all, late_held, late_order, x);
       late_back = false; late_all = false; late_held = false;
       late_number = 0; late_order = 0; late_give_of = 0; x = 0 }
#ifdef READS
  /* Member 0 is to go out ... */
  :: d_step { out == 0 && ends == ENDS && !to_recover &&
       (alive[0] || over (0)) && (alive[1] || over (1)) -> out = PREPARED }
  /* ... and is, when all that was acknowledged is on member 1, too.  Without it a write that
   * was not answered needs the image alone.
   */
  :: d_step { out == PREPARED &&
#ifndef COMMIT_UNHELD
       holds &&
#endif
       copy[0] == 0 && copy[1] == 0 && due[2] == 0 && due[3] == 0 ->
       out = COMMITTED;
       copy[0] = (alive[0] -> due[0] : 0); due[0] = 0;
       copy[1] = (alive[1] -> due[1] : 0); due[1] = 0 }
#endif
  /* A heartbeat is answered; an answer of the weftd before may be lost. */
  :: atomic { alive[0] && !ended[0] && (beat[0] == 0 || beat[0] != generation) && news (0) ->
       answer_beat (0) }
  :: atomic { alive[1] && !ended[1] && (beat[1] == 0 || beat[1] != generation) && news (1) ->
       answer_beat (1) }
  od
}

inline die (h)
{
  alive[h] = false;
  known[h] = 0; deaf[h] = false; told[h] = false;
  held[h] = false; leaving[h] = false; back[h] = false; revoked[h] = false;
  copy[h] = 0; heard_order[h] = 0; last_order[h] = 0; has_read[h] = false;
  done_order[h] = 0;
  forget_call (h);
  forget_give (h);
  giving[h] = false; give[h] = false; resend[h] = false; gives[h] = 0;
  beat[h] = 0; beat_revoke[h] = false; beat_order[h] = 0
}

active proctype Members ()
{
  byte i, x;

  do
  /* The end of a session is confirmed: nothing of it runs here any more. */
  :: atomic {
       if
       :: ended[0] && !fence[0] -> i = 0
       :: ended[0] && !fence[2] -> i = 2
       :: ended[1] && !fence[1] -> i = 1
       :: ended[1] && !fence[3] -> i = 3
       fi;
       fence[i] = true; i = 0 }
  /* A request runs, or is refused. */
  :: atomic {
       if
       :: due[0] != 0 -> i = 0
       :: due[1] != 0 -> i = 1
       :: due[2] != 0 -> i = 2
       :: due[3] != 0 -> i = 3
       fi;
       if
       :: fence[i] ->
          x = i % 2;
          if
          :: alive[x] -> die (x) /* it hears that it is over */
          :: else -> skip
          fi
       :: else ->
          assert (!BELIEVES (other (i % 2)));
          val[i / 2] = due[i];
          if
          :: i < 2 && alive[i] && out == 0 ->
             copy[i] = due[i];
             acked = due[i]
          :: i >= 2 && out == COMMITTED -> acked = due[i]
          :: else -> skip
          fi
       fi;
       if
       :: i < 2 && out == PREPARED -> skip /* its answer is not heard */
       :: else -> due[i] = 0
       fi;
       i = 0; x = 0 }
  od
}

/* The range is this host's from now on. */
inline begin_to_hold (h)
{
  assert (over (h) || !BELIEVES (other (h)) && !ON_ITS_WAY (other (h)));
  assert (over (h) || held[h] ||
          (out == COMMITTED || val[0] == val[1]) && val[1] >= acked);
  held[h] = true
}

active [2] proctype Host ()
{
  byte me = _pid - 2;

  do
  :: !alive[me] -> break
  /* Dies; what it has sent may still run. */
  :: d_step { alive[me] && (ends < ENDS || ended[me]) -> die (me) }
  /* A write: the data, then the image. */
  :: d_step { alive[me] && held[me] && issued <= WRITES && due[me] == 0 && due[2 + me] == 0 &&
       copy[me] == 0 && out != PREPARED ->
       issued++;
       if
       :: out == COMMITTED -> copy[me] = issued
       :: else -> due[me] = issued
       fi }
  :: d_step { alive[me] && copy[me] != 0 -> due[2 + me] = copy[me]; copy[me] = 0 }

#ifdef READS
  :: d_step { out == COMMITTED && !arrived[me] && copy[me] == 0 && due[2 + me] == 0 ->
       arrived[me] = true }
#endif

  /* Recovers: reads the data, and writes it as the image. */
  :: d_step { alive[me] && heard_order[me] != 0 && !has_read[me] && !fence[me] ->
       has_read[me] = true; due[2 + me] = val[0] }
  :: atomic { alive[me] && heard_order[me] != 0 && has_read[me] && due[2 + me] == 0 ->
       done_order[me] = heard_order[me];
       heard_order[me] = 0; has_read[me] = false;
       begin_to_hold (me) }

  /* Asks. */
  :: atomic { alive[me] && !ended[me] && asking[me] == 0 && told[me] && asks < ASKS ->
       if
       :: !held[me] && heard_order[me] == 0 && !revoked[me] &&
          !leaving[me] && !back[me] -> asking[me] = MUST
       :: asking[me] = WISH
       fi;
       asks++;
       ask[me] = asking[me];
       less[me] = leaving[me] || back[me] }
  /* Gives it up: it is lost, or carried out late. */
  :: d_step { alive[me] && asking[me] != 0 && late < LATE && late_ask == 0 ->
       late++;
       if
       :: ask[me] != 0 -> late_ask = ask[me]; late_ask_of = me
       :: else -> skip
       fi;
       forget_call (me) }
  :: atomic { alive[me] && ask_answer[me] != 0 ->
       if
       :: ask_answer[me] == GRANTED && told[me] ->
          if
#ifndef GRANT_UNRECOVERED
          :: heard_order[me] != 0 -> skip
#endif
#ifndef NO_SUBTRACT
          :: less[me] ->
             /* What must be had is never left out: everybody makes progress. */
             assert (asking[me] != MUST)
#endif
          :: else -> begin_to_hold (me)
          fi
#ifdef NO_GENERATION
       :: ask_answer[me] == GRANTED && !told[me] -> begin_to_hold (me)
#endif
       :: ask_answer[me] == DECLARE ->
          told[me] = false;
#ifndef HEAR_AFTER_DECLARE
          deaf[me] = true
#endif
       :: else -> skip
       fi;
       forget_call (me) }

  /* Gives back, declares, says that it has recovered. */
  :: d_step { alive[me] && !ended[me] && !giving[me] && gives[me] < GIVES &&
#ifndef NO_GENERATION
       (told[me] || asking[me] == 0) &&
#endif
       (resend[me] || back[me] || done_order[me] != 0 || !told[me]) ->
       giving[me] = true; give[me] = true;
       if
       :: !resend[me] ->
          gives[me]++;
          give_back[me] = back[me];
          give_order[me] = done_order[me]
       :: else -> skip
       fi;
       resend[me] = false;
       give_all[me] = !told[me];
       give_held[me] = !told[me] && HAS (me) }
  :: d_step { alive[me] && giving[me] && late < LATE && !late_give ->
       late++;
       if
       :: give[me] ->
          late_give = true; late_give_of = me; late_number = gives[me];
          late_back = give_back[me]; late_all = give_all[me];
          late_held = give_held[me]; late_order = give_order[me]
       :: else -> skip /* the answer is lost */
       fi;
       give[me] = false; giving[me] = false; give_answer[me] = 0; resend[me] = true }
  :: d_step { alive[me] && give_answer[me] != 0 ->
       if
       :: give_answer[me] == DECLARE ->
          told[me] = false; resend[me] = true;
#ifndef HEAR_AFTER_DECLARE
          deaf[me] = true
#endif
       :: else ->
          if
          :: give_back[me] -> back[me] = false
          :: else -> skip
          fi;
          if
          :: give_order[me] == done_order[me] -> done_order[me] = 0
          :: else -> skip
          fi;
          if
          :: give_all[me] -> told[me] = true
          :: else -> skip
          fi
       fi;
       forget_give (me) }

  /* Hears the answer to a heartbeat. */
  :: atomic { alive[me] && beat[me] != 0 ->
       if
       :: beat[me] == known[me] && !deaf[me] ->
          if
          :: beat_revoke[me] && !leaving[me] && !back[me] -> revoked[me] = true
          :: else -> skip
          fi;
          if
          :: beat_order[me] != 0 &&
#ifndef HEAR_UNTOLD
             told[me] &&
#endif
#ifndef HEAR_AGAIN
             beat_order[me] != last_order[me] &&
#endif
             heard_order[me] == 0 && !held[me] ->
             assert (over (me) || !BELIEVES (other (me)) && !ON_ITS_WAY (other (me)));
             last_order[me] = beat_order[me];
             heard_order[me] = beat_order[me]; has_read[me] = false
          :: else -> skip
          fi
       :: beat[me] != known[me] ->
          known[me] = beat[me]; deaf[me] = false; told[me] = false
       :: else -> skip
       fi;
       beat[me] = 0; beat_revoke[me] = false; beat_order[me] = 0 }

  /* Leaves: begins no write any more ... */
  :: d_step { alive[me] &&
#ifndef NO_WITHHOLD
       asking[me] != MUST &&
#endif
#ifndef LEAVE_UNRECOVERED
       heard_order[me] == 0 &&
#endif
       revoked[me] ->
       revoked[me] = false;
       /* What was not ours is left at once. */
       leaving[me] = held[me]; back[me] = !held[me]; held[me] = false;
       less[me] = less[me] || asking[me] != 0 }
  /* ... and has left it when all that began is done, and all images are written. */
  :: d_step { alive[me] &&
#ifndef NO_DRAIN_ON_REVOKE
       due[me] == 0 && due[2 + me] == 0 && copy[me] == 0 &&
#endif
       leaving[me] ->
       leaving[me] = false; back[me] = true }
  od
}

#ifdef READS
active proctype Reader ()
{
  do
  /* Reads nothing older than what a write was answered for, or than what was read before. */
  :: d_step { !holds ->
#ifdef READ_ANY_COPY
       if
       :: from = 0
       :: from = 1
       fi;
#endif
       assert (val[from] >= acked && val[from] >= seen);
       seen = val[from] }
  :: d_step { out == PREPARED -> holds = true }
  :: d_step {
#ifndef READS_GO_ON
       (arrived[0] || ended[0]) && (arrived[1] || ended[1]) &&
#endif
       out == COMMITTED && from == 0 ->
       from = 1; holds = false }
  od
}
#endif
