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
  return permille_of (done < total ? done : total, total);
}

const char *
job_text (const json_t *job, char text[JOB_TEXT_BYTES])
{
  char done[SIZE_TEXT_BYTES], total[SIZE_TEXT_BYTES], rate[SIZE_TEXT_BYTES];
  char eta[AGE_TEXT_BYTES];

  snprintf (text, JOB_TEXT_BYTES, "%s", json_text (job, "state"));
  if (json_number (job, "total_bytes"))
    text_add (text, JOB_TEXT_BYTES, ", %s of %s (%d.%d %%)",
              size_text (json_number (job, "done_bytes"), done),
              size_text (json_number (job, "total_bytes"), total),
              job_permille (job) / 10, job_permille (job) % 10);
  if (json_number (job, "rate"))
    text_add (text, JOB_TEXT_BYTES, ", %s/s",
              size_text (json_number (job, "rate"), rate));
  if (json_is_integer (json_object_get (job, "eta_ms")))
    text_add (text, JOB_TEXT_BYTES, ", %s left",
              age_text (json_number (job, "eta_ms"), eta));
  if (json_has (job, "waits"))
    text_add (text, JOB_TEXT_BYTES, "; waits for %s", json_text (job, "waits"));
  return text;
}

static void
job_row (struct table *t, const json_t *job)
{
  char eta[AGE_TEXT_BYTES];
  int permille = job_permille (job);

  if (permille < 0)
    table_cell (t, "-");
  else
    table_cell (t, "%d.%d %%", permille / 10, permille % 10);
  table_cells (t, job, "rate:rate");
  table_cell (t, "%s",
              json_is_integer (json_object_get (job, "eta_ms"))
                ? age_text (json_number (job, "eta_ms"), eta)
                : "-");
  table_cells (t, job, "since|waits");
}

int
cmd_job_ls (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, "/api/v1/jobs", "jobs",
                 "JOB|KIND|SUBJECT|!STATE|>DONE|>RATE|>ETA|SINCE|WAITS FOR",
                 "id|kind|subject|state", job_row);
}

int
cmd_job_show (struct ctl *ctl, const struct args *args)
{
  char path[JOB_PATH_BYTES], text[JOB_TEXT_BYTES];
  json_t *job = NULL;
  int r = job_path (args_plain (args, 0), path);

  if (r == EXIT_OK)
    r = ctl_call (ctl, "GET", path, NULL, &job);
  return ctl_say (ctl, r, job, "job %s (%s of %s, since %s): %s",
                  json_text (job, "id"), json_text (job, "kind"),
                  json_text (job, "subject"), json_text (job, "since"),
                  job_text (job, text));
}
