/* cmd-wait.c: weftctl wait: until an array, a node or a job is as is wanted. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "wait.h"

/* Wait, and print the last answer or `subject: what`. */
static int
wait_and_say (struct ctl *ctl, struct wait *w, const char *path)
{
  json_t *reply;
  int r = ctl_wait (ctl, w, path, &reply);

  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (reply);
  else
    printf ("%s: %s\n", w->subject, w->what);
  json_decref (reply);
  return EXIT_OK;
}

static int
no_such_state (const char *word, const char *known)
{
  ctl_error ("%s: no state to wait for; there are %s", word, known);
  return EXIT_USAGE;
}

/* --- array ---------------------------------------------------------------- */

/* A list of arrays, so that one that is gone is no error. */
static const json_t *
find (const json_t *list, const char *name)
{
  json_t *v;
  size_t i;

  json_array_foreach (list, i, v)
    if (strcmp (json_text (v, "name"), name) == 0)
      return v;
  return NULL;
}

/* How far its members are: the thousandths of what rebuilds have done, -1 where
 * none is going on; how many members aren't in-sync.
 */
static int
array_permille (const json_t *array, unsigned *not_in_sync)
{
  uint64_t total = 0, todo = 0;
  json_t *m;
  size_t i;

  *not_in_sync = 0;
  json_array_foreach (json_object_get (array, "members"), i, m) {
    const json_t *rebuild = json_object_get (m, "rebuild");

    *not_in_sync += strcmp (json_text (m, "state"), "in-sync") != 0;
    total += json_number (rebuild, "total_bytes");
    todo += json_number (rebuild, "todo_bytes");
  }
  if (total == 0 || todo > total)
    return -1;
  return (int) ((double) (total - todo) * 1000 / (double) total);
}

static int
look_at_array (struct wait *w, const json_t *reply, bool *done)
{
  const json_t *array = find (json_object_get (reply, "arrays"), w->name);
  const char *state = json_text (array, "state");
  unsigned not_in_sync;
  int permille;

  if (strcmp (w->what, "gone") == 0)
    *done = array == NULL;
  else if (array == NULL) {
    ctl_error ("array %s: there is none; weftctl array ls shows them", w->name);
    return EXIT_REFUSED;
  }
  permille = array_permille (array, &not_in_sync);
  if (strcmp (w->what, "ready") == 0)
    *done = strcmp (state, "ready") == 0;
  else if (strcmp (w->what, "in-sync") == 0)
    *done = not_in_sync == 0 && strcmp (state, "creating") != 0 &&
            strcmp (state, "deleting") != 0;
  snprintf (
    w->now, sizeof w->now, "%s, %u of %zu members not in-sync%s%s", state,
    not_in_sync, json_array_size (json_object_get (array, "members")),
    json_is_string (json_object_get (array, "waits_for")) ? ", waits for " : "",
    json_is_string (json_object_get (array, "waits_for"))
      ? json_text (array, "waits_for")
      : "");
  if (!*done)
    progress_show (&w->progress, w->subject, permille, w->now, w->now);
  return EXIT_OK;
}

int
cmd_wait_array (struct ctl *ctl, const struct args *args)
{
  struct wait w;
  int r = ctl_check_name ("an array", args_plain (args, 0));

  if (r != EXIT_OK)
    return r;
  ctl_wait_init (ctl, &w, false);
  w.name = args_plain (args, 0);
  w.what = args_plain (args, 1);
  w.look = look_at_array;
  if (strcmp (w.what, "ready") != 0 && strcmp (w.what, "in-sync") != 0 &&
      strcmp (w.what, "gone") != 0)
    return no_such_state (w.what, "ready, in-sync and gone");
  snprintf (w.subject, sizeof w.subject, "array %s", w.name);
  return wait_and_say (ctl, &w, "/api/v1/arrays");
}

/* --- node ----------------------------------------------------------------- */

static int
look_at_node (struct wait *w, const json_t *reply, bool *done)
{
  const json_t *node = find (json_object_get (reply, "nodes"), w->name);
  bool alive = json_is_true (json_object_get (node, "alive"));
  bool drained = json_is_true (json_object_get (node, "drained"));

  /* One that has never been heard may still come. */
  if (strcmp (w->what, "alive") == 0)
    *done = alive;
  else if (strcmp (w->what, "silent") == 0)
    *done = !alive;
  else
    *done = drained;
  snprintf (
    w->now, sizeof w->now, "%s%s%s%s",
    node == NULL ? "never heard of"
    : alive      ? "alive"
                 : "silent",
    json_is_true (json_object_get (node, "draining")) ? ", draining" : "",
    json_is_string (json_object_get (node, "waits")) ? ", waits for " : "",
    json_is_string (json_object_get (node, "waits")) ? json_text (node, "waits")
                                                     : "");
  if (!*done)
    progress_show (&w->progress, w->subject, -1, w->now, w->now);
  return EXIT_OK;
}

int
cmd_wait_node (struct ctl *ctl, const struct args *args)
{
  struct wait w;
  int r = ctl_check_name ("a node", args_plain (args, 0));

  if (r != EXIT_OK)
    return r;
  ctl_wait_init (ctl, &w, false);
  w.name = args_plain (args, 0);
  w.what = args_plain (args, 1);
  w.look = look_at_node;
  if (strcmp (w.what, "alive") != 0 && strcmp (w.what, "silent") != 0 &&
      strcmp (w.what, "drained") != 0)
    return no_such_state (w.what, "alive, silent and drained");
  snprintf (w.subject, sizeof w.subject, "node %s", w.name);
  return wait_and_say (ctl, &w, "/api/v1/nodes");
}

/* --- job ------------------------------------------------------------------ */

static int
look_at_job (struct wait *w, const json_t *job, bool *done)
{
  char text[JOB_TEXT_BYTES], about[JOB_TEXT_BYTES];
  const char *state = json_text (job, "state");

  job_text (job, text);
  if (strcmp (state, "failed") == 0) {
    ctl_error ("%s: %s", w->subject, text);
    return EXIT_FAILED;
  }
  *done = strcmp (state, "done") == 0;
  snprintf (w->now, sizeof w->now, "%s", text);
  snprintf (about, sizeof about, "%s %s", state, json_text (job, "waits"));
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
  ctl_wait_init (ctl, &w, false);
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
