/* cluster-jobs.c: jobs: long-running work, as a list for people and scripts.
 *
 * A job has no state of its own: it is a view of a joining member, a node that
 * is being drained, or an array that is being made.  So jobs survive weftd with
 * these objects.  Rebuilds and creations that have ended have a record each,
 * for a day, so that a waiting user or script sees how it ended.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-repair.h"

/* The number of ended jobs to keep. */
#define JOBS_KEPT 64
#define KEPT_MS (UINT64_C (24) * 3600 * 1000)

static const char *const kinds[] = { [CLUSTER_JOB_REBUILD] = "rebuild",
                                     [CLUSTER_JOB_DRAIN] = "drain",
                                     [CLUSTER_JOB_CREATE] = "create" };
static const char *const states[] = { [CLUSTER_JOB_RUNNING] = "running",
                                      [CLUSTER_JOB_PAUSED] = "paused",
                                      [CLUSTER_JOB_WAITING] = "waiting",
                                      [CLUSTER_JOB_DONE] = "done",
                                      [CLUSTER_JOB_FAILED] = "failed" };

#define COUNT(words) (int) (sizeof words / sizeof words[0])

static int
parse (const char *const words[], int count, const char *word)
{
  while (--count >= 0 && strcmp (words[count], word) != 0)
    ;
  return count;
}

const char *
cluster_job_kind_word (enum cluster_job_kind kind)
{
  return kinds[kind];
}

const char *
cluster_job_state_word (enum cluster_job_state state)
{
  return states[state];
}

int
cluster_job_kind_parse (const char *word)
{
  return parse (kinds, COUNT (kinds), word);
}

int
cluster_job_state_parse (const char *word)
{
  return parse (states, COUNT (states), word);
}

static void
job_rebuild (const struct cluster *c, const struct cluster_array *a,
             unsigned member, struct cluster_job *job)
{
  const struct cluster_member *m = &a->rec.member[member];
  const struct cluster_join *join = &a->disk[member]->join;

  *job = (struct cluster_job) { .kind = CLUSTER_JOB_REBUILD,
                                .total_bytes = join->total_bytes,
                                .rate = join->rate,
                                .eta_ms = cluster_join_eta_ms (c, a, member),
                                .since_wall_ms = m->since_wall_ms };
  snprintf (job->id, sizeof job->id, "rebuild-%s-%u", a->rec.name, member);
  snprintf (job->subject, sizeof job->subject, "member %u of array %s", member,
            a->rec.name);
  if (join->total_bytes > join->todo_bytes)
    job->done_bytes = join->total_bytes - join->todo_bytes;
  job->state = cluster_join_waits (c, a, member, job->waits, sizeof job->waits)
                 ? CLUSTER_JOB_WAITING
                 : CLUSTER_JOB_RUNNING;
  if (m->paused)
    job->state = CLUSTER_JOB_PAUSED;
}

static void
job_create (const struct cluster *c, const struct cluster_array *a,
            struct cluster_job *job)
{
  *job = (struct cluster_job) {
    .kind = CLUSTER_JOB_CREATE, .since_wall_ms = a->rec.member[0].since_wall_ms
  };
  snprintf (job->id, sizeof job->id, "create-%s", a->rec.name);
  snprintf (job->subject, sizeof job->subject, "array %s", a->rec.name);
  job->state = cluster_array_waits_for (c, a, job->waits, sizeof job->waits)
                 ? CLUSTER_JOB_WAITING
                 : CLUSTER_JOB_RUNNING;
}

void
cluster_job_drain (const struct cluster *c, const struct cluster_node *n,
                   struct cluster_job *job)
{
  uint64_t left = cluster_drain_bytes (c, n->rec.name);

  *job = (struct cluster_job) { .kind = CLUSTER_JOB_DRAIN,
                                .total_bytes = n->rec.drain_bytes,
                                .since_wall_ms = n->rec.draining_wall_ms };
  snprintf (job->id, sizeof job->id, "drain-%s", n->rec.name);
  snprintf (job->subject, sizeof job->subject, "node %s", n->rec.name);
  if (left > job->total_bytes)
    job->total_bytes = left;
  job->done_bytes = job->total_bytes - left;
  job->rate = cluster_drain_rate (c, n->rec.name, &job->eta_ms);
  if (cluster_node_drained (c, n->rec.name))
    job->state = CLUSTER_JOB_DONE;
  else
    job->state = cluster_node_waits (c, n->rec.name, job->waits,
                                     sizeof job->waits, NULL)
                   ? CLUSTER_JOB_WAITING
                   : CLUSTER_JOB_RUNNING;
}

static bool
is_old (const struct cluster *c, const struct cluster_job *job)
{
  return c->wall_ms >= job->ended_wall_ms + KEPT_MS;
}

/* Those of long ago go, and all beyond so many; and the one of this id. */
static void
prune (struct cluster *c, unsigned most, const char *id)
{
  struct cluster_job *job, *next;
  unsigned count = 0;

  TAILQ_FOREACH_SAFE (job, &c->ended, link, next)
    if (is_old (c, job) || ++count > most || strcmp (job->id, id) == 0)
      cluster_step_drop_job (c, job);
}

void
cluster_jobs_prune (struct cluster *c)
{
  prune (c, JOBS_KEPT, "");
}

void
cluster_job_load (struct cluster *c, const struct cluster_job *job)
{
  struct cluster_job *new = alloc_zeroed (sizeof *new), *next;

  *new = *job;
  TAILQ_FOREACH (next, &c->ended, link)
    if (next->ended_wall_ms <= new->ended_wall_ms)
      break;
  if (next)
    TAILQ_INSERT_BEFORE (next, new, link);
  else
    TAILQ_INSERT_TAIL (&c->ended, new, link);
}

static void
keep (struct cluster *c, struct cluster_job *job)
{
  struct cluster_job *new = alloc_zeroed (sizeof *new);

  job->ended_wall_ms = c->wall_ms;
  prune (c, JOBS_KEPT - 1, job->id);
  *new = *job;
  TAILQ_INSERT_HEAD (&c->ended, new, link);
  cluster_step_put_job (c, new);
}

void
cluster_job_rebuilt (struct cluster *c, const struct cluster_array *a,
                     unsigned member, enum member_state state)
{
  struct cluster_job job;

  job_rebuild (c, a, member, &job);
  job.rate = job.eta_ms = 0;
  job.waits[0] = '\0';
  if (state == MEMBER_IN_SYNC) {
    job.state = CLUSTER_JOB_DONE;
    job.done_bytes = job.total_bytes;
  }
  else {
    job.state = CLUSTER_JOB_FAILED;
    snprintf (job.waits, sizeof job.waits, "%s", a->rec.member[member].reason);
  }
  keep (c, &job);
}

void
cluster_job_created (struct cluster *c, const struct cluster_array *a)
{
  struct cluster_job job;

  job_create (c, a, &job);
  job.state = CLUSTER_JOB_DONE;
  job.waits[0] = '\0';
  keep (c, &job);
}

struct cluster_job *
cluster_jobs (const struct cluster *c, size_t *count)
{
  const struct cluster_array *a;
  const struct cluster_node *n;
  const struct cluster_job *old;
  struct cluster_job *jobs;
  size_t room = 1, live;

  *count = 0;
  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++)
      room += !a->rec.ready || a->rec.member[m].state == MEMBER_JOINING;
  TAILQ_FOREACH (n, &c->nodes, link)
    room++;
  TAILQ_FOREACH (old, &c->ended, link)
    room++;
  jobs = alloc_zeroed (room * sizeof *jobs);
  TAILQ_FOREACH (n, &c->nodes, link)
    if (n->rec.draining)
      cluster_job_drain (c, n, &jobs[(*count)++]);
  TAILQ_FOREACH (a, &c->arrays, link) {
    if (!a->rec.ready)
      job_create (c, a, &jobs[(*count)++]);
    for (unsigned m = 0; m < a->layout.members; m++)
      if (a->rec.member[m].state == MEMBER_JOINING)
        job_rebuild (c, a, m, &jobs[(*count)++]);
  }
  live = *count;
  TAILQ_FOREACH (old, &c->ended, link) {
    size_t i = 0;

    while (i < live && strcmp (jobs[i].id, old->id) != 0)
      i++;
    if (i == live && !is_old (c, old))
      jobs[(*count)++] = *old;
  }
  return jobs;
}
