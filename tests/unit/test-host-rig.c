/* test-host-rig.c: see test-host-rig.h. */

#include <config.h>

#include <ctype.h>
#include <string.h>

#include "test-host-rig.h"

struct host *h;
uint64_t now;
struct host_action act;
struct host_answer answer;
struct host_config config;
bool kept;
uint64_t reach;

static void
states (const char *members, enum member_state to[])
{
  for (unsigned m = 0; members[m]; m++)
    to[m] = strchr ("iI", members[m])   ? MEMBER_IN_SYNC
            : strchr ("jJ", members[m]) ? MEMBER_JOINING
                                        : MEMBER_OUT;
}

void
begin (bool readonly, const char *members)
{
  now = 100000;
  memset (&config, 0, sizeof config);
  config.members = strlen (members);
  config.readonly = readonly;
  config.view.epoch = config.view.map_epoch = 5;
  config.heard_ms = now;
  states (members, config.view.states);
  for (unsigned m = 0; m < config.members; m++)
    config.connected[m] = isupper (members[m]);
  h = host_new (&config, now);
  CHECK (h);
  host_check (h);
}

void
finish (void)
{
  host_check (h);
  host_free (h);
}

bool
next (enum host_do kind)
{
  bool any = host_next (h, now, kind, &act);

  host_check (h);
  return any && act.kind == kind;
}

bool
nothing (unsigned kinds)
{
  return host_due_ms (h, now, kinds) > now && !host_next (h, now, kinds, &act);
}

void
work (void)
{
  while (host_next (h, now, HOST_DO_COMMIT | HOST_DO_ENTER, &act)) {
    if (act.kind == HOST_DO_COMMIT)
      host_committed (h, act.epoch);
    else
      host_entered (h, host_view (h)->epoch, host_view (h)->epoch);
    host_check (h);
  }
}

void
says_nothing (void)
{
  memset (&answer, 0, sizeof answer);
  answer.status = 200;
}

void
says_epoch (uint64_t epoch, const char *members, bool map)
{
  says_nothing ();
  answer.view.epoch = epoch;
  states (members, answer.view.states);
  if (map) {
    answer.view.map_epoch = epoch;
    memcpy (answer.view.fence, host_view (h)->fence, sizeof answer.view.fence);
    memcpy (answer.view.lapse, host_view (h)->lapse, sizeof answer.view.lapse);
    memcpy (answer.view.life, host_view (h)->life, sizeof answer.view.life);
    memcpy (answer.view.round, host_view (h)->round, sizeof answer.view.round);
  }
}

void
says_fence (unsigned member, uint64_t lapse)
{
  answer.view.fence[member] = answer.view.epoch;
  answer.view.lapse[member] = lapse;
}

void
says_change (uint64_t epoch, const char *members)
{
  answer.view.change = epoch;
  states (members, answer.view.change_states);
}

void
says_problem (int status, const char *code)
{
  says_nothing ();
  answer.status = status;
  answer.code = code;
}

void
beat (void)
{
  now += 100;
  CHECK (next (HOST_DO_BEAT));
  host_answered (h, HOST_DO_BEAT, &answer, now);
  host_check (h);
}

void
hear (uint64_t epoch, const char *members)
{
  says_epoch (epoch, members, true);
  beat ();
  work ();
}

void
hear_fence (uint64_t epoch, const char *members, unsigned member,
            uint64_t lapse)
{
  says_epoch (epoch, members, true);
  says_fence (member, lapse);
  beat ();
  work ();
}

void
tell (void)
{
  CHECK (next (HOST_DO_TELL));
  says_nothing ();
  host_answered (h, HOST_DO_TELL, &answer, now);
}

enum host_news
report (unsigned member)
{
  enum host_news news;

  CHECK (next (HOST_DO_REPORT) && act.member == member);
  news = host_reported (h, &answer, now);
  host_check (h);
  return news;
}

bool
connects (unsigned member, bool ok)
{
  bool up;

  CHECK (next (HOST_DO_CONNECT) && act.member == member);
  if (!host_opened (h, member, ok, "it hangs", &kept, &reach, now))
    return false;
  host_check (h);
  up = host_seated (h, member, true, now);
  host_check (h);
  return up;
}
