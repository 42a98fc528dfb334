/* cmd-job.c: weftctl job: what weftd has under way. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

int
job_path (const char *id, char path[JOB_PATH_BYTES])
{
  size_t n = strspn (id, "abcdefghijklmnopqrstuvwxyz0123456789-");

  if (n == 0 || id[n] != '\0' || n > 128) {
    ctl_error ("%s: not the id of a job; weftctl job ls shows them", id);
    return EXIT_USAGE;
  }
  snprintf (path, JOB_PATH_BYTES, "/api/v1/jobs/%s", id);
  return EXIT_OK;
}

int
job_permille (const json_t *job)
{
  uint64_t done = json_number (job, "done_bytes");
  uint64_t total = json_number (job, "total_bytes");

  if (strcmp (json_text (job, "state"), "done") == 0)
    return 1000;
  if (total == 0)
    return -1;
  return done >= total ? 1000 : (int) ((double) done * 1000 / (double) total);
}

const char *
job_text (const json_t *job, char text[JOB_TEXT_BYTES])
{
  char done[SIZE_TEXT_BYTES], total[SIZE_TEXT_BYTES], rate[SIZE_TEXT_BYTES];
  char eta[AGE_TEXT_BYTES];
  int n = snprintf (text, JOB_TEXT_BYTES, "%s", json_text (job, "state"));

#define ADD(...)                                                               \
  if (n < JOB_TEXT_BYTES)                                                      \
  n += snprintf (text + n, (size_t) (JOB_TEXT_BYTES - n), __VA_ARGS__)
  if (json_number (job, "total_bytes"))
    ADD (", %s of %s (%d.%d %%)",
         size_text (json_number (job, "done_bytes"), done),
         size_text (json_number (job, "total_bytes"), total),
         job_permille (job) / 10, job_permille (job) % 10);
  if (json_number (job, "rate"))
    ADD (", %s/s", size_text (json_number (job, "rate"), rate));
  if (json_is_integer (json_object_get (job, "eta_ms")))
    ADD (", %s left", age_text (json_number (job, "eta_ms"), eta));
  if (json_is_string (json_object_get (job, "waits")))
    ADD ("; waits for %s", json_text (job, "waits"));
#undef ADD
  return text;
}

int
cmd_job_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *j;
  struct table *t;
  size_t i;
  int r;

  if (!ctl_list (ctl, "/api/v1/jobs", &reply, &r))
    return r;
  t = table_new ("JOB|KIND|SUBJECT|!STATE|>DONE|>RATE|>ETA|SINCE|WAITS FOR");
  json_array_foreach (json_object_get (reply, "jobs"), i, j) {
    char rate[SIZE_TEXT_BYTES], eta[AGE_TEXT_BYTES];
    int permille = job_permille (j);

    table_cell (t, "%s", json_text (j, "id"));
    table_cell (t, "%s", json_text (j, "kind"));
    table_cell (t, "%s", json_text (j, "subject"));
    table_cell (t, "%s", json_text (j, "state"));
    if (permille < 0)
      table_cell (t, "-");
    else
      table_cell (t, "%d.%d %%", permille / 10, permille % 10);
    if (json_number (j, "rate"))
      table_cell (t, "%s/s", size_text (json_number (j, "rate"), rate));
    else
      table_cell (t, "-");
    table_cell (t, "%s",
                json_is_integer (json_object_get (j, "eta_ms"))
                  ? age_text (json_number (j, "eta_ms"), eta)
                  : "-");
    table_cell (t, "%s", json_text (j, "since"));
    table_cell (t, "%s", json_text (j, "waits"));
  }
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
}

int
cmd_job_show (struct ctl *ctl, const struct args *args)
{
  char path[JOB_PATH_BYTES], text[JOB_TEXT_BYTES];
  json_t *job;
  int r = job_path (args_plain (args, 0), path);

  if (r == EXIT_OK)
    r = ctl_call (ctl, "GET", path, NULL, &job);
  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (job);
  else
    printf ("job %s (%s of %s, since %s): %s\n", json_text (job, "id"),
            json_text (job, "kind"), json_text (job, "subject"),
            json_text (job, "since"), job_text (job, text));
  json_decref (job);
  return EXIT_OK;
}
