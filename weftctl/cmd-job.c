/* cmd-job.c: weftctl job: rebuilds, drains and other work of weftd. */

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
  uint64_t done = output_json_number (job, "done_bytes");
  uint64_t total = output_json_number (job, "total_bytes");

  if (strcmp (output_json_text (job, "state"), "done") == 0)
    return 1000;
  return output_permille_of (done < total ? done : total, total);
}

const char *
job_text (const json_t *job, char text[JOB_TEXT_BYTES])
{
  char done[SIZE_TEXT_BYTES], total[SIZE_TEXT_BYTES], rate[SIZE_TEXT_BYTES];
  char eta[AGE_TEXT_BYTES];

  snprintf (text, JOB_TEXT_BYTES, "%s", output_json_text (job, "state"));
  if (output_json_number (job, "total_bytes"))
    output_text_add (
      text, JOB_TEXT_BYTES, ", %s of %s (%d.%d %%)",
      output_size (output_json_number (job, "done_bytes"), done),
      output_size (output_json_number (job, "total_bytes"), total),
      job_permille (job) / 10, job_permille (job) % 10);
  if (output_json_number (job, "rate"))
    output_text_add (text, JOB_TEXT_BYTES, ", %s/s",
                     output_size (output_json_number (job, "rate"), rate));
  if (json_is_integer (json_object_get (job, "eta_ms")))
    output_text_add (text, JOB_TEXT_BYTES, ", %s left",
                     output_age (output_json_number (job, "eta_ms"), eta));
  if (output_json_has (job, "waits"))
    output_text_add (text, JOB_TEXT_BYTES, "; waits for %s",
                     output_json_text (job, "waits"));
  return text;
}

static void
job_row (struct table *t, const json_t *job)
{
  char eta[AGE_TEXT_BYTES];
  int permille = job_permille (job);

  if (permille < 0)
    output_table_cell (t, "-");
  else
    output_table_cell (t, "%d.%d %%", permille / 10, permille % 10);
  output_table_cells (t, job, "rate:rate");
  output_table_cell (t, "%s",
                     json_is_integer (json_object_get (job, "eta_ms"))
                       ? output_age (output_json_number (job, "eta_ms"), eta)
                       : "-");
  output_table_cells (t, job, "since|waits");
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
                  output_json_text (job, "id"), output_json_text (job, "kind"),
                  output_json_text (job, "subject"),
                  output_json_text (job, "since"), job_text (job, text));
}
