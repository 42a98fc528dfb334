/* cmd-wait.c: weftctl wait: until an array, a node or a job is as is wanted. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "wait.h"

/* `wait array` and `wait node`: what, "an array", is to get into a state. */
static int
wait_for_state (struct ctl *ctl, const struct args *args, const char *what,
                const char *const states[3],
                int (*look) (struct wait *w, const json_t *reply, bool *done),
                const char *path)
{
  const char *name = args_plain (args, 0), *state = args_plain (args, 1);
  struct wait w;
  int r = ctl_check_name (what, name);

  if (r != EXIT_OK)
    return r;
  if (strcmp (state, states[0]) != 0 && strcmp (state, states[1]) != 0 &&
      strcmp (state, states[2]) != 0) {
    ctl_error ("%s: no state to wait for; there are %s, %s and %s", state,
               states[0], states[1], states[2]);
    return EXIT_USAGE;
  }
  wait_init (ctl, &w, false);
  w.name = name;
  w.what = state;
  w.look = look;
  snprintf (w.subject, sizeof w.subject, "%s %s", strchr (what, ' ') + 1, name);
  return wait_and_say (ctl, &w, path);
}

/* --- array ---------------------------------------------------------------- */

/* A list of arrays, so that one that is gone is no error. */
static const json_t *
find (const json_t *list, const char *name)
{
  json_t *v;
  size_t i;

  json_array_foreach (list, i, v)
    if (strcmp (output_json_text (v, "name"), name) == 0)
      return v;
  return NULL;
}

static int
look_at_array (struct wait *w, const json_t *reply, bool *done)
{
  const json_t *array = find (json_object_get (reply, "arrays"), w->name);
  const char *state = output_json_text (array, "state");
  uint64_t total = 0, todo = 0;
  unsigned not_in_sync = 0;
  json_t *m;
  size_t i;

  json_array_foreach (json_object_get (array, "members"), i, m) {
    const json_t *rebuild = json_object_get (m, "rebuild");

    not_in_sync += strcmp (output_json_text (m, "state"), "in-sync") != 0 ||
                   output_json_has (m, "next_disk");
    total += output_json_number (rebuild, "total_bytes");
    todo += output_json_number (rebuild, "todo_bytes");
  }
  if (strcmp (w->what, "gone") == 0)
    *done = array == NULL;
  else if (array == NULL) {
    ctl_error ("array %s: there is none; weftctl array ls shows them", w->name);
    return EXIT_REFUSED;
  }
  else if (strcmp (w->what, "ready") == 0)
    *done = strcmp (state, "ready") == 0;
  else
    *done = not_in_sync == 0 && strcmp (state, "creating") != 0 &&
            strcmp (state, "deleting") != 0;
  snprintf (w->now, sizeof w->now, "%s, %u of %zu members not in-sync", state,
            not_in_sync, json_array_size (json_object_get (array, "members")));
  if (output_json_has (array, "waits_for"))
    output_text_add (w->now, sizeof w->now, ", waits for %s",
                     output_json_text (array, "waits_for"));
  if (!*done)
    progress_show (&w->progress, w->subject,
                   todo > total ? -1 : output_permille_of (total - todo, total),
                   w->now, w->now);
  return EXIT_OK;
}

int
cmd_wait_array (struct ctl *ctl, const struct args *args)
{
  static const char *const states[3] = { "ready", "in-sync", "gone" };

  return wait_for_state (ctl, args, "an array", states, look_at_array,
                         "/api/v1/arrays");
}

/* --- node ----------------------------------------------------------------- */

static int
look_at_node (struct wait *w, const json_t *reply, bool *done)
{
  const json_t *node = find (json_object_get (reply, "nodes"), w->name);
  bool alive = output_json_yes (node, "alive");

  /* A node that has never been heard of may still come. */
  if (strcmp (w->what, "alive") == 0)
    *done = alive;
  else if (strcmp (w->what, "silent") == 0)
    *done = !alive;
  else
    *done = output_json_yes (node, "drained");
  snprintf (w->now, sizeof w->now, "%s%s",
            node == NULL ? "never heard of"
            : alive      ? "alive"
                         : "silent",
            output_json_yes (node, "draining") ? ", draining" : "");
  if (output_json_has (node, "waits"))
    output_text_add (w->now, sizeof w->now, ", waits for %s",
                     output_json_text (node, "waits"));
  if (!*done)
    progress_show (&w->progress, w->subject, -1, w->now, w->now);
  return EXIT_OK;
}

int
cmd_wait_node (struct ctl *ctl, const struct args *args)
{
  static const char *const states[3] = { "alive", "silent", "drained" };

  return wait_for_state (ctl, args, "a node", states, look_at_node,
                         "/api/v1/nodes");
}

/* --- job ------------------------------------------------------------------ */

static int
look_at_job (struct wait *w, const json_t *job, bool *done)
{
  char text[JOB_TEXT_BYTES], about[JOB_TEXT_BYTES];
  const char *state = output_json_text (job, "state");

  job_text (job, text);
  if (strcmp (state, "failed") == 0) {
    ctl_error ("%s: %s", w->subject, text);
    return EXIT_FAILED;
  }
  *done = strcmp (state, "done") == 0;
  snprintf (w->now, sizeof w->now, "%s", text);
  snprintf (about, sizeof about, "%s %s", state,
            output_json_text (job, "waits"));
  if (!*done)
    progress_show (&w->progress, w->subject, job_permille (job), about, text);
  return EXIT_OK;
}

int
ctl_wait_job (struct ctl *ctl, const char *id)
{
  char path[JOB_PATH_BYTES];
  struct wait w;
  int r = job_path (id, path);

  if (r != EXIT_OK)
    return r;
  wait_init (ctl, &w, false);
  w.what = "done";
  w.look = look_at_job;
  snprintf (w.subject, sizeof w.subject, "job %s", id);
  return wait_and_say (ctl, &w, path);
}

int
cmd_wait_job (struct ctl *ctl, const struct args *args)
{
  return ctl_wait_job (ctl, args_plain (args, 0));
}
