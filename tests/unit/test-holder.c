/* test-holder.c: each rule of holder.h, in scenes; and a walk with a weftd that loses
 * messages and answers, in which no segment is ever in use for two.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "host/holder.h"
#include "test-random.h"

#define FIRST 4
#define END 100

static struct holder *h;
static uint64_t now_ms;
static const char *why;
static const struct holder_message *m;

static const uint8_t *
uuid (unsigned i)
{
  static uint8_t bytes[16];

  bytes[0] = (uint8_t) (1 + i);
  return bytes;
}

static struct holder_volume *
open_runs (unsigned i, const struct volume_run *runs, unsigned count)
{
  why = NULL;
  return holder_open (h, uuid (i), runs, count, &why);
}

static void
begin (void)
{
  holder_free (h);
  h = holder_new (FIRST, END);
  CHECK (h);
  now_ms = 10000;
}

static void
tell (struct holder_volume *v, uint32_t want, uint32_t log, bool waits,
      uint64_t mapped)
{
  struct holder_facts f = {
    .want = want,
    .near = 7,
    .log = log,
    .waits = waits,
    .said = { .made = true, .size = 512, .mapped = mapped },
  };

  holder_tell (h, v, &f);
  holder_check (h);
}

static void
next (void)
{
  m = holder_next (h, now_ms);
  CHECK (m && holder_next (h, now_ms) == NULL);
  CHECK (holder_due_ms (h) == UINT64_MAX);
  holder_check (h);
}

static void
answer (int status)
{
  holder_answered (h, status, now_ms);
  holder_check (h);
}

static void
nothing_until (uint64_t ms)
{
  CHECK (holder_due_ms (h) == now_ms + ms);
  CHECK (holder_next (h, now_ms + ms - 1) == NULL);
  now_ms += ms;
}

static void
test_open (void)
{
  struct volume_run runs[3] = { { 10, 5 }, { 20, 5 }, { 24, 1 } };
  struct holder_volume *v;

  begin ();
  CHECK (open_runs (0, runs, 3) == NULL && why);
  runs[2].first = 25;
  v = open_runs (0, runs, 3);
  CHECK (v && holder_find (h, uuid (0)) == v && !holder_find (h, uuid (1)));
  CHECK (open_runs (1, &(struct volume_run) { 14, 1 }, 1) == NULL && why);
  CHECK (open_runs (1, &(struct volume_run) { 15, 0 }, 1) == NULL && why);
  CHECK (open_runs (1, &(struct volume_run) { 3, 2 }, 1) == NULL && why);
  CHECK (open_runs (1, &(struct volume_run) { 99, 2 }, 1) == NULL && why);
  CHECK (open_runs (1, &(struct volume_run) { 99, UINT32_MAX }, 1) == NULL);
  CHECK (open_runs (1, &(struct volume_run) { 15, 5 }, 1));
  CHECK (holder_next (h, now_ms) == NULL); /* nothing is known of them */
  holder_close (h, v);
  CHECK (open_runs (2, &(struct volume_run) { 10, 1 }, 1));
  holder_check (h);
}

static void
test_says (void)
{
  struct holder_volume *v;

  begin ();
  v = open_runs (0, NULL, 0);
  tell (v, 0, 0, false, 1);
  holder_formatted (h);
  next ();
  CHECK (m->number == 1 && m->formatted && m->entries == 1 && m->dones == 0);
  CHECK (m->entry[0].says && m->entry[0].said.size == 512 &&
         m->entry[0].want == 0 && m->entry[0].gives == 0);
  answer (200);
  CHECK (holder_number (h) == 1 && holder_due_ms (h) == UINT64_MAX);
  /* Figures alone are not said at once. */
  tell (v, 0, 0, false, 2);
  nothing_until (1000);
  next ();
  CHECK (m->number == 2 && !m->formatted && m->entry[0].said.mapped == 2);
  answer (200);
  /* But a new size is. */
  {
    struct holder_facts f = { .said = { .made = true, .size = 1024 } };

    holder_tell (h, v, &f);
  }
  next ();
  CHECK (m->entry[0].says && m->entry[0].said.size == 1024);
  answer (200);
}

/* Before a volume is closed, and when it was, weftd hears of it once more. */
static void
test_leave (void)
{
  const struct volume_run all = { 10, 10 }, given = { 15, 5 };
  struct holder_volume *v;
  struct volume_run *runs;
  unsigned count;

  begin ();
  v = open_runs (0, &all, 1);
  tell (v, 0, 0, false, 1);
  CHECK (!holder_settled (h, v));
  next ();
  CHECK (!holder_settled (h, v));
  answer (200);
  CHECK (holder_settled (h, v) && holder_due_ms (h) == UINT64_MAX);
  holder_leave (h, v);
  CHECK (!holder_settled (h, v));
  next ();
  CHECK (m->entries == 1 && m->entry[0].says);
  answer (200);
  CHECK (holder_settled (h, v));
  holder_give (h, v, &given, 1);
  CHECK (!holder_settled (h, v));
  runs = holder_runs (h, v, &count);
  CHECK (count == 1 && runs[0].first == 10 && runs[0].count == 5);
  free (runs);
  next ();
  CHECK (m->entry[0].gives == 1 && !holder_settled (h, v));
  answer (0);
  CHECK (!holder_settled (h, v));
  /* Weftd may know of it or not, so its answer to "open" may have them or not. */
  holder_close (h, v);
  CHECK (open_runs (0, &all, 1) == NULL && why);
  now_ms = holder_due_ms (h);
  next ();
  answer (200);
  CHECK (open_runs (0, &(struct volume_run) { 10, 5 }, 1));
}

/* Less than was asked for is asked for again, sooner if requests wait. */
static void
test_asks (void)
{
  struct holder_volume *v;

  begin ();
  v = open_runs (0, NULL, 0);
  tell (v, 16, 2, false, 0);
  next ();
  CHECK (m->entry[0].want == 16 && m->entry[0].log == 2 &&
         m->entry[0].near == 7);
  CHECK (holder_granted (h, v, &(struct volume_run) { 30, 16 }));
  answer (200);
  tell (v, 16, 0, false, 0); /* it was granted all: it may ask at once */
  next ();
  CHECK (m->entry[0].want == 16 && !m->entry[0].says);
  CHECK (holder_granted (h, v, &(struct volume_run) { 50, 15 }));
  answer (200);
  tell (v, 1, 0, false, 0);
  CHECK (holder_due_ms (h) == now_ms + 5000);
  tell (v, 1, 1, false, 0);
  CHECK (holder_due_ms (h) == now_ms + 1000);
  tell (v, 1, 0, true, 0);
  nothing_until (1000);
  next ();
  CHECK (m->entry[0].want == 1);
  /* Segments in use, or none of the pool. */
  CHECK (!holder_granted (h, v, &(struct volume_run) { 64, 1 }));
  CHECK (!holder_granted (h, v, &(struct volume_run) { 99, 2 }));
  CHECK (!holder_granted (h, v, &(struct volume_run) { 3, 1 }));
  CHECK (!holder_granted (h, v, &(struct volume_run) { 70, 0 }));
  CHECK (holder_granted (h, v, &(struct volume_run) { 70, 1 }));
  answer (200);
  CHECK (!holder_granted (h, v, &(struct volume_run) { 80, 1 }));
}

/* A message without an answer, or refused, is sent again as it is. */
static void
test_again (void)
{
  const struct volume_run runs[] = { { 10, 10 } }, back = { 12, 3 },
                          more = { 17, 1 };
  struct holder_volume *v, *w;

  begin ();
  v = open_runs (0, runs, 1);
  tell (v, 0, 0, false, 0);
  holder_give (h, v, &back, 1);
  holder_did (h, 7, "no");
  next ();
  CHECK (m->entry[0].gives == 1 && m->entry[0].give[0].first == 12);
  CHECK (m->dones == 1 && m->done[0].number == 7 &&
         strcmp (m->done[0].error, "no") == 0);
  holder_give (h, v, &more, 1);
  for (int i = 0; i < 3; i++) {
    answer (i == 0 ? 0 : i == 1 ? 503 : 409);
    CHECK (holder_number (h) == 0);
    nothing_until (500);
    next ();
    CHECK (m->number == 1 && m->entry[0].gives == 1 && m->dones == 1);
  }
  /* The segments may be granted in this answer, to another volume. */
  w = open_runs (1, NULL, 0);
  CHECK (holder_granted (h, w, &back));
  /* weftd has not heard of this one yet. */
  CHECK (!holder_granted (h, w, &more));
  answer (200);
  next ();
  CHECK (m->number == 2 && m->entry[0].gives == 1 &&
         m->entry[0].give[0].first == 17 && m->dones == 0);
  holder_close (h, v); /* while a message is under way */
  answer (200);
  CHECK (holder_due_ms (h) == UINT64_MAX && holder_find (h, uuid (1)) == w);
}

static void
test_many (void)
{
  struct holder_volume *v;

  begin ();
  for (unsigned i = 0; i < HOLDER_VOLUMES_MAX + 3; i++) {
    v = open_runs (i, NULL, 0);
    tell (v, 0, 0, false, 0);
    holder_did (h, i + 1, NULL);
  }
  next ();
  CHECK (m->entries == HOLDER_VOLUMES_MAX && m->dones == HOLDER_DONE_MAX);
  answer (200);
  next ();
  CHECK (m->entries == 3 && m->dones == 3 && m->done[2].number == 67 &&
         m->done[0].error[0] == '\0');
  answer (200);
  CHECK (holder_due_ms (h) == UINT64_MAX);
}

static void
test_orders (void)
{
  struct holder_order list[2] = { { .number = 5, .what = HOLDER_DO_DELETE },
                                  { .number = 9, .size = 7 } };
  struct holder_order o;

  begin ();
  CHECK (!holder_next_order (h, &o));
  holder_ordered (h, list, 2);
  holder_ordered (h, list, 2); /* as in each answer */
  CHECK (holder_next_order (h, &o) && o.number == 5 &&
         o.what == HOLDER_DO_DELETE);
  CHECK (holder_next_order (h, &o) && o.number == 9 && o.size == 7);
  holder_ordered (h, list, 2);
  CHECK (!holder_next_order (h, &o));
}

/* ---- The walk ---- */

#define VOLUMES 4

/* A weftd, and what it has answered last. */
static struct {
  unsigned owner[END]; /* 1 + the volume; 0: nobody */
  uint64_t number;
  struct volume_run grant[VOLUMES];
  bool done[3000]; /* orders */
} weftd;
static struct holder_volume *volume[VOLUMES];
static bool uses[VOLUMES][END]; /* by the volume engines */
static unsigned ordered;

static void
weftd_takes (void)
{
  CHECK (m->number == weftd.number || m->number == weftd.number + 1);
  if (m->number == weftd.number)
    return;
  weftd.number = m->number;
  memset (weftd.grant, 0, sizeof weftd.grant);
  for (unsigned i = 0; i < m->dones; i++) {
    CHECK (!weftd.done[m->done[i].number]);
    weftd.done[m->done[i].number] = true;
  }
  for (unsigned i = 0; i < m->entries; i++)
    for (unsigned k = 0; k < m->entry[i].gives; k++)
      for (uint32_t s = 0; s < m->entry[i].give[k].count; s++) {
        uint32_t at = m->entry[i].give[k].first + s;

        CHECK (weftd.owner[at] == m->entry[i].uuid[0]);
        weftd.owner[at] = 0;
      }
  for (unsigned i = 0; i < m->entries; i++) {
    struct volume_run *run = &weftd.grant[m->entry[i].uuid[0] - 1];
    uint32_t want = m->entry[i].want, at = FIRST;

    while (at < END && weftd.owner[at])
      at++;
    run->first = at;
    for (; run->count < want && at < END && !weftd.owner[at]; at++) {
      weftd.owner[at] = m->entry[i].uuid[0];
      run->count++;
    }
  }
}

static void
step_message (void)
{
  m = holder_next (h, now_ms);
  if (!m)
    return;
  if (test_random (5) > 0)
    weftd_takes ();
  else {
    answer (test_random (2) ? 0 : 409 + (int) test_random (2) * 94);
    return;
  }
  if (test_random (5) == 0) {
    answer (0);
    return;
  }
  for (unsigned i = 0; i < VOLUMES; i++)
    if (weftd.grant[i].count > 0) {
      CHECK (holder_granted (h, volume[i], &weftd.grant[i]));
      for (uint32_t s = 0; s < weftd.grant[i].count; s++)
        uses[i][weftd.grant[i].first + s] = true;
    }
  answer (200);
}

static void
step_give (void)
{
  unsigned i = (unsigned) test_random (VOLUMES);
  struct volume_run run = { FIRST + (uint32_t) test_random (END - FIRST), 0 };

  while (run.first + run.count < END && uses[i][run.first + run.count])
    uses[i][run.first + run.count++] = false;
  if (run.count > 0)
    holder_give (h, volume[i], &run, 1);
}

static void
step_want (void)
{
  unsigned i = (unsigned) test_random (VOLUMES);

  tell (volume[i], (uint32_t) test_random (20), 0, test_random (2) == 0,
        test_random (3));
}

static void
step_order (void)
{
  struct holder_order list[3] = { 0 }, o;
  unsigned count = 0;

  if (test_random (2) == 0)
    ordered++;
  for (unsigned n = 1; n <= ordered && count < 3; n++)
    if (!weftd.done[n])
      list[count++].number = n;
  holder_ordered (h, list, count);
  if (holder_next_order (h, &o))
    holder_did (h, o.number, NULL);
}

static void
step_time (void)
{
  now_ms += test_random (1000);
}

static void
test_walk (void)
{
  static const struct test_step steps[] = { { 40, step_message },
                                            { 15, step_give },
                                            { 20, step_want },
                                            { 10, step_order },
                                            { 15, step_time } };
  memset (&weftd, 0, sizeof weftd);
  memset (uses, 0, sizeof uses);
  ordered = 0;
  begin ();
  for (unsigned i = 0; i < VOLUMES; i++)
    volume[i] = open_runs (i, NULL, 0);
  for (unsigned n = 0; n < 2000; n++) {
    test_random_step (steps);
    holder_check (h);
    for (unsigned i = 0; i < VOLUMES; i++)
      for (uint32_t s = 0; s < END; s++)
        CHECK (!uses[i][s] || weftd.owner[s] == i + 1);
  }
  for (unsigned i = 0; i < VOLUMES; i++)
    tell (volume[i], 0, 0, false, 0);
  while (holder_due_ms (h) != UINT64_MAX) {
    now_ms += 1000;
    step_message ();
  }
  for (unsigned i = 0; i < VOLUMES; i++)
    for (uint32_t s = 0; s < END; s++)
      CHECK (uses[i][s] == (weftd.owner[s] == i + 1));
  CHECK (holder_number (h) == weftd.number);
}

int
main (void)
{
  test_random_start ();
  test_open ();
  test_says ();
  test_leave ();
  test_asks ();
  test_again ();
  test_many ();
  test_orders ();
  for (unsigned i = 0; i < 50; i++)
    test_walk ();
  holder_free (h);
  return 0;
}
