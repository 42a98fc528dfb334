/* pulse.c: how long a disk has been stuck (pulse.h). */

#include <config.h>

#include "pulse.h"

void
pulse_ask (struct pulse *p, uint64_t now_ms)
{
  p->asked = true;
  p->looked_ms = now_ms;
  p->stuck_ms = 0;
}

void
pulse_answered (struct pulse *p)
{
  p->asked = false;
  p->stuck_ms = 0;
}

uint64_t
pulse_look (struct pulse *p, uint64_t now_ms, uint64_t completed)
{
  uint64_t ms = now_ms - p->looked_ms;

  if (!p->asked || completed != p->completed)
    p->stuck_ms = 0;
  else
    p->stuck_ms += ms < PULSE_LOOK_MS ? ms : PULSE_LOOK_MS;
  p->looked_ms = now_ms;
  p->completed = completed;
  return p->stuck_ms;
}
