/* volumes-scan.c: see volumes-scan.h.
 *
 * Roots and logs may be in the members' caches alone.  So the array is flushed before
 * weftd hears of the end; if a member has lost its cache meanwhile, the scan begins again.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "common/clock.h"
#include "hangup.h"
#include "role.h"
#include "volumes-scan.h"
#include "volumes-wish.h"
#include "volumes-messages.h"

#define CALL_MS 10000
#define AGAIN_MS 200
#define PAUSE_MS 2 /* between two looks at a volume that is read */
/* Runs in a message; weftd takes 65,536. */
#define RUNS_MAX 4096
#define TRIES_MAX 8 /* if members lose their caches */

/* A scan at work. */
struct scan {
  const struct volumes_scan *of;
  uint8_t *slots;         /* of one root */
  struct pool_root *root; /* of the volume */
  struct volume_run *runs;
  unsigned volumes, broken;
  bool over; /* weftd needs no scan any more */
};

enum step {
  STEP_NEXT,
  STEP_ANEW, /* begin again */
  STEP_FAIL, /* an error was logged */
};

static enum step
fail (const char *why)
{
  nbdkit_error ("array %s: the scan of the pool was not ended, and the next "
                "process begins it again: %s",
                params.array, why);
  return STEP_FAIL;
}

/* ---- Words with weftd ---- */

/* Until weftd has answered.  The body is consumed. */
static enum step
say (struct scan *s, json_t *body)
{
  const struct volumes_scan *of = s->of;
  enum volumes_messages_next next;
  json_t *reply = NULL;
  bool told = false;
  char path[128];
  int status;

  snprintf (path, sizeof path, "/api/v1/sessions/%s/scan", of->session);
  for (;;) {
    if (hangup_ending ()) {
      json_decref (body);
      return fail ("this process ends");
    }
    status = admin_call (of->admin, "POST", path, body, &reply, CALL_MS);
    next = volumes_messages_scanned (status, admin_code (of->admin), reply,
                                     &s->over);
    json_decref (reply);
    reply = NULL;
    if (next != VOLUMES_MESSAGES_AGAIN)
      break;
    if (!told)
      nbdkit_error ("array %s: the scan of the pool waits for weftd: %s",
                    params.array, admin_error (of->admin));
    told = true;
    clock_sleep_ms (AGAIN_MS);
  }
  json_decref (body);
  if (next == VOLUMES_MESSAGES_ANEW)
    return STEP_ANEW;
  if (next == VOLUMES_MESSAGES_REFUSED)
    return fail (status == 200 ? "weftd's answer is not usable; are weftd and "
                                 "this nbdkit of the same version?"
                               : admin_error (of->admin));
  return STEP_NEXT;
}

static enum step
say_found (struct scan *s, const struct volumes_messages_found *f,
           unsigned runs)
{
  return say (s,
              volumes_messages_scan (s->of->instance, 0, 0, f, s->runs, runs));
}

/* ---- The array ---- */

static enum step
array_io (const struct volumes_scan *of, enum array_op op, void *buf,
          uint64_t offset, uint64_t bytes, int *error)
{
  struct array_request r = {
    .op = op, .offset = offset, .length = bytes, .buf = buf
  };

  *error = engine_run_alone (of->engine, &r);
  return hangup_ending () ? fail ("this process ends") : STEP_NEXT;
}

static enum step
read_slots (const struct volumes_scan *of, uint8_t *slots, unsigned number,
            int *error)
{
  return array_io (of, ARRAY_READ, slots, pool_root_offset (of->pool, number),
                   2 * POOL_ROOT_BYTES, error);
}

/* ---- A volume ---- */

static enum step
broken (struct scan *s, struct volumes_messages_found *f, const char *why)
{
  s->broken++;
  f->why = why;
  nbdkit_error ("array %s: the volume of root %u%s%s cannot be read: %s",
                params.array, f->root, f->name ? ", " : "",
                f->name ? f->name : "", why);
  return STEP_NEXT;
}

/* Its segments, in as many messages as are needed. */
static enum step
say_segments (struct scan *s, struct volumes_wish *w,
              struct volumes_messages_found *f)
{
  enum step step = STEP_NEXT;
  bool first = true;

  w->uses = s->runs;
  w->uses_max = RUNS_MAX;
  w->uses_after = 0;
  for (; step == STEP_NEXT; first = false) {
    engine_call (s->of->engine, volumes_wish_uses, w);
    if (w->uses_count == 0 && !first)
      break;
    f->kept = w->kept;
    step = say_found (s, f, w->uses_count);
  }
  return step;
}

/* The root is valid; the log is read. */
static enum step
volume (struct scan *s, struct volumes_messages_found *f)
{
  const struct volumes_scan *of = s->of;
  const struct pool_header *pool = of->pool;
  struct volume_run all = { pool_first_segment (pool), 0 };
  struct volume_config config = { .pool = *pool,
                                  .number = f->root,
                                  .scan = true };
  struct volumes_wish w = { .config = &config, .runs = &all, .count = 1 };
  enum step step = STEP_NEXT;

  all.count = pool->segments - all.first;
  memcpy (config.uuid, s->root->volume, 16);
  engine_call (of->engine, volumes_wish_add, &w);
  if (w.slot == NULL)
    return fail ("there is no memory for a volume");
  do {
    if (hangup_ending ())
      return fail ("this process ends"); /* the block drops the volume */
    clock_sleep_ms (PAUSE_MS);
    engine_call (of->engine, volumes_wish_look, &w);
  } while (w.state == VOLUME_OPENING || !w.idle);
  f->uuid = s->root->volume;
  f->name = s->root->name;
  f->size = s->root->size;
  if (w.state == VOLUME_FAILED)
    step = broken (s, f, w.why);
  if (step == STEP_NEXT)
    step = say_segments (s, &w, f);
  engine_call (of->engine, volumes_wish_drop, &w);
  return step;
}

static enum step
root (struct scan *s, unsigned number)
{
  struct volumes_messages_found f = { .root = number };
  const char *why = "it cannot be read";
  enum step step;
  int error;

  step = read_slots (s->of, s->slots, number, &error);
  if (step != STEP_NEXT)
    return step;
  if (error == 0 && pool_root_empty (s->slots))
    return STEP_NEXT;
  s->volumes++;
  if (error == 0 &&
      pool_root_newest (s->slots, s->of->pool, s->root, &why) != -1)
    return volume (s, &f);
  step = broken (s, &f, why);
  return step == STEP_NEXT ? say_found (s, &f, 0) : step;
}

/* ---- All of it ---- */

static uint64_t
losses (struct scan *s)
{
  struct volumes_wish w = { 0 };

  engine_call (s->of->engine, volumes_wish_losses, &w);
  return w.losses;
}

static enum step
flush (struct scan *s, uint64_t lost)
{
  enum step step;
  int error;

  step = array_io (s->of, ARRAY_FLUSH, NULL, 0, 0, &error);
  if (step == STEP_NEXT && (error || losses (s) != lost))
    step = STEP_ANEW;
  return step;
}

static enum step
all_roots (struct scan *s)
{
  const struct volumes_scan *of = s->of;
  uint64_t lost = losses (s);
  enum step step;

  s->volumes = s->broken = 0;
  step = say (s, volumes_messages_scan (
                   of->instance, VOLUMES_MESSAGES_BEGIN,
                   of->imported ? of->pool->segment_bytes : 0, NULL, NULL, 0));
  for (unsigned i = 0; step == STEP_NEXT && !s->over && i < of->pool->roots;
       i++)
    step = root (s, i);
  if (step == STEP_NEXT && !s->over)
    step = flush (s, lost);
  if (step == STEP_NEXT && !s->over)
    step = say (s, volumes_messages_scan (of->instance, VOLUMES_MESSAGES_END, 0,
                                          NULL, NULL, 0));
  if (step == STEP_NEXT && !s->over)
    step = STEP_ANEW;
  return step;
}

int
volumes_scan (const struct volumes_scan *of)
{
  struct scan s = { .of = of };
  enum step step = STEP_ANEW;

  s.slots = malloc (2 * POOL_ROOT_BYTES);
  s.root = calloc (1, sizeof *s.root);
  s.runs = calloc (RUNS_MAX, sizeof s.runs[0]);
  nbdkit_error ("array %s: reading the volumes of the pool, because weftd's "
                "database may be older than they are",
                params.array);
  if (s.slots == NULL || s.root == NULL || s.runs == NULL)
    step = fail ("there is no memory for it");
  for (unsigned i = 0; step == STEP_ANEW && i < TRIES_MAX; i++)
    step = all_roots (&s);
  if (step == STEP_ANEW)
    step = fail ("weftd was started again and again, or members have lost "
                 "their caches");
  if (step == STEP_NEXT)
    nbdkit_error ("array %s: the pool was scanned: %u volumes, of which %u "
                  "cannot be read",
                  params.array, s.volumes, s.broken);
  free (s.slots);
  free (s.root);
  free (s.runs);
  return step == STEP_NEXT ? 0 : -1;
}

int
volumes_scan_plain (const struct volumes_scan *of)
{
  struct scan s = { .of = of };
  enum step step;

  do
    step = say (
      &s, volumes_messages_scan (of->instance,
                                 VOLUMES_MESSAGES_BEGIN | VOLUMES_MESSAGES_END,
                                 0, NULL, NULL, 0));
  while (step == STEP_ANEW);
  return step == STEP_NEXT ? 0 : -1;
}

int
volumes_scan_any (const struct volumes_scan *of)
{
  uint8_t *slots = malloc (2 * POOL_ROOT_BYTES);
  enum step step = STEP_NEXT;
  bool any = false;
  int error = 0;

  if (slots == NULL)
    step = fail ("there is no memory for it");
  for (unsigned i = 0; step == STEP_NEXT && !any && i < of->pool->roots; i++) {
    step = read_slots (of, slots, i, &error);
    any = step == STEP_NEXT &&
          (error || pool_root_present (slots, of->pool->array));
  }
  free (slots);
  return step == STEP_NEXT ? any : -1;
}
