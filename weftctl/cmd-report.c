/* cmd-report.c: weftctl report: an archive for a support request.
 *
 * The archive has no secrets: weftd's API shows none, keys and tokens of this
 * host are not read, and words in a log that look like a secret are struck out.
 *
 * A child process fills the archive.  This process waits for it, and leaves
 * only the archive behind, also when a signal ends it.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/admin.h"
#include "common/strike.h"
#include "ctl.h"
#include "output.h"
#include "ctl-process.h"

struct report {
  struct ctl *ctl;
  char dir[64];                  /* a temporary one, private */
  char name[64];                 /* of the folder in it, and of the archive */
  char output[4096], part[4104]; /* the archive; while it is being written */
  char *token;                   /* a secret to strike out; may be NULL */
  unsigned files;
};

/* --- Striking out -------------------------------------------------------- */

/* Overwrite what follows each `mark`, or the mark, too: n bytes, or with 0 up
 * to the first one that can't be part of a secret.
 */
static void
strike (char *text, const char *mark, bool mark_too, size_t n)
{
  for (char *p = strstr (text, mark); p; p = strstr (p, mark)) {
    char *secret = mark_too ? p : p + strlen (mark);
    size_t length = n ? strnlen (secret, n)
                      : strcspn (secret, " \t\r\n\"'<>&;,\\");

    memset (secret, '*', length);
    p = secret + length;
  }
}

/* Private keys in PEM. */
static void
strike_keys (char *text)
{
  char *end;

  for (char *p = text; (p = strstr (p, "PRIVATE KEY-----")) != NULL; p = end) {
    p += strlen ("PRIVATE KEY-----");
    end = strstr (p, "-----END");
    end = end ? end : p + strlen (p);
    memset (p, '*', (size_t) (end - p));
  }
}

static void
strike_all (const struct report *report, char *text)
{
  static const char *const marks[] = { "setup=", "Bearer ",
                                       "token=", "password=", "secret=" };

  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
    strike (text, marks[i], false, 0);
  if (report->token)
    strike (text, report->token, true, strlen (report->token));
  strike_keys (text);
  strike_secrets (text);
}

/* --- Files --------------------------------------------------------------- */

/* Write `text`, which is freed, as a file of the report. */
static int
put (struct report *report, const char *name, char *text)
{
  char path[200];
  FILE *f;
  bool ok;

  if (text == NULL)
    return EXIT_OK;
  strike_all (report, text);
  snprintf (path, sizeof path, "%s/%s/%s", report->dir, report->name, name);
  f = fopen (path, "we");
  ok = f && fputs (text, f) != EOF;
  ok = f && fclose (f) == 0 && ok;
  free (text);
  if (!ok)
    ctl_error ("%s: %s", path, strerror (errno));
  report->files += ok;
  return ok ? EXIT_OK : EXIT_FAILED;
}

/* --- What weftd says ----------------------------------------------------- */

static const struct {
  const char *path, *file;
} answers[] = {
  { "/api/v1/status", "status.json" },
  { "/api/v1/arrays", "arrays.json" },
  { "/api/v1/nodes", "nodes.json" },
  { "/api/v1/disks", "disks.json" },
  { "/api/v1/sessions", "sessions.json" },
  { "/api/v1/rebuilds", "rebuilds.json" },
  { "/api/v1/jobs", "jobs.json" },
  { "/api/v1/imports", "imports.json" },
  { "/api/v1/history?subject=cluster", "history.json" },
  { "/api/v1/log?limit=1000", "log.json" },
  { "/api/v1/audit?limit=1000", "audit.json" },
};

/* A failed call to weftd is noted in the place of its answer. */
static int
put_answers (struct report *report)
{
  struct ctl *ctl = report->ctl;
  int status, r = EXIT_OK;
  char *text;

  for (size_t i = 0; r == EXIT_OK && i < sizeof answers / sizeof answers[0];
       i++) {
    json_t *reply = NULL;

    status = admin_call (ctl->admin, "GET", answers[i].path, NULL, &reply,
                         ctl->timeout_ms);
    text = status == 200
             ? json_dumps (reply, JSON_INDENT (2) | JSON_ENSURE_ASCII)
             : strdup (admin_error (ctl->admin));
    json_decref (reply);
    r = put (report, answers[i].file, text);
  }
  if (r == EXIT_OK) {
    status = admin_fetch (ctl->admin, "/metrics", &text, ctl->timeout_ms);
    r = put (report, "metrics.txt",
             status == 200 ? text : strdup (admin_error (ctl->admin)));
  }
  return r;
}

/* --- What this host says ------------------------------------------------- */

static const struct {
  const char *file, *command; /* for the shell; any of it may be missing */
} programs[] = {
  { "versions.txt",
    "weftctl --version; nbdkit --version; uname -a; cat /etc/os-release; "
    "dpkg-query -W 'weft*' nbdkit libnbd0 2>/dev/null" },
  { "processes.txt", "ps -eo pid,ppid,lstart,rss,stat,comm | "
                     "grep -E 'PID|weft|nbdkit|nbd'" },
  { "devices.txt", "lsblk -b -o NAME,SIZE,TYPE,FSTYPE,ROTA,MOUNTPOINTS; "
                   "losetup -l; cat /proc/mounts" },
  { "memory.txt", "free -b; cat /proc/loadavg; cat /proc/pressure/*" },
  { "network.txt", "ip -brief address; ss -tlnp" },
  { "kernel.txt", "dmesg --time-format iso | tail -n 500" },
  { "units.txt", "systemctl status --no-pager --lines=0 'weft*'; "
                 "systemctl show -p Id -p ActiveState -p SubState "
                 "-p NRestarts -p Result 'weft*'" },
  { "journal.txt", "journalctl --no-pager -o short-iso -n 3000 -u 'weft*'" },
  { "config.txt",
    "cat /etc/weft/weft.conf; ls -lR /etc/weft; "
    "for c in /etc/weft/tls/*-cert.pem /etc/weft/processes/*/tls/*-cert.pem; "
    "do test -f \"$c\" && "
    "openssl x509 -in \"$c\" -noout -subject -issuer -serial -dates; done" },
};

static int
put_host (struct report *report)
{
  int r = EXIT_OK;

  for (size_t i = 0; r == EXIT_OK && i < sizeof programs / sizeof programs[0];
       i++) {
    const char *argv[] = { "sh", "-c", programs[i].command, NULL };

    r = put (report, programs[i].file, process_output (argv));
  }
  return r;
}

/* --- The archive --------------------------------------------------------- */

/* tar gets a new file of ours, and follows nobody's link to another one. */
static int
pack (const struct report *report)
{
  char file[64], said[512];
  const char *argv[] = { "tar",  "-C", report->dir,  "--owner=0", "--group=0",
                         "-czf", file, report->name, NULL };
  int fd, status;

  unlink (report->part); /* of one that was killed */
  fd = open (report->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             0600);
  if (fd == -1) {
    ctl_error ("%s: %s", report->part, strerror (errno));
    return EXIT_FAILED;
  }
  snprintf (file, sizeof file, "/proc/%d/fd/%d", (int) getpid (), fd);
  status = process_run (argv, said, sizeof said);
  close (fd);
  if (status == 0 && rename (report->part, report->output) == 0)
    return EXIT_OK;
  ctl_error ("%s: %s", report->output, status ? said : strerror (errno));
  return EXIT_FAILED;
}

static void
remove_all (const struct report *report)
{
  const char *argv[] = { "rm", "-rf", "--", report->dir, report->part, NULL };
  char said[256];

  process_run (argv, said, sizeof said);
}

static int
begin (struct report *report)
{
  char host[NAME_BYTES_MAX + 1], path[200];
  time_t now = time (NULL);
  struct tm tm;

  ctl_node_name (host);
  strftime (path, sizeof path, "%Y%m%d-%H%M%S", gmtime_r (&now, &tm));
  snprintf (report->name, sizeof report->name, "weft-report-%.24s-%.20s", host,
            path);
  strcpy (report->dir, "/tmp/weftctl-XXXXXX");
  if (mkdtemp (report->dir) == NULL) {
    ctl_error ("%s: %s", report->dir, strerror (errno));
    return EXIT_FAILED;
  }
  snprintf (path, sizeof path, "%s/%s", report->dir, report->name);
  if (mkdir (path, 0700) == 0)
    return EXIT_OK;
  ctl_error ("%s: %s", path, strerror (errno));
  remove_all (report);
  return EXIT_FAILED;
}

static int
gather (struct report *report)
{
  int r = put_answers (report);

  if (r == EXIT_OK)
    r = put_host (report);
  if (r == EXIT_OK)
    r = pack (report);
  r = ctl_say (report->ctl, r,
               json_pack ("{s:s, s:i}", "file", report->output, "files",
                          (int) report->files),
               "%s: %u files; look through it before you give it away",
               report->output, report->files);
  fflush (stdout);
  return r;
}

/* --- The child process that gathers, and the parent that tidies up ----------
 */

static const int ends[] = { SIGHUP, SIGINT, SIGTERM };
#define ENDS (sizeof ends / sizeof ends[0])

static volatile sig_atomic_t ended; /* by this signal; 0: not */
static volatile pid_t gatherer;     /* and its programs: a process group */

static void
on_end (int signum)
{
  ended = signum;
  if (gatherer > 0)
    kill (-gatherer, signum);
}

/* Except for ignored signals. */
static void
take_ends (void (*handler) (int))
{
  struct sigaction action = { .sa_handler = handler }, old;

  for (size_t i = 0; i < ENDS; i++)
    if (sigaction (ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
      sigaction (ends[i], &action, NULL);
}

/* As `gather`. */
static int
gather_apart (struct report *report)
{
  int r = EXIT_FAILED;
  pid_t pid;

  pid = fork ();
  if (pid == 0) {
    take_ends (SIG_DFL);
    setpgid (0, 0);
    _exit (ended ? EXIT_FAILED : gather (report));
  }
  if (pid == -1)
    ctl_error ("cannot start a process: %s", strerror (errno));
  else {
    /* Parent and child both do this, as either may be the first to run. */
    setpgid (pid, pid);
    gatherer = pid;
    if (ended)
      on_end (ended);
    r = process_wait (pid);
  }
  return r >= EXIT_OK && r <= EXIT_UNREACHABLE ? r : EXIT_FAILED;
}

int
cmd_report (struct ctl *ctl, const struct args *args)
{
  struct report report = { .ctl = ctl };
  const char *given = args_value (args, "output");
  int r = config_token (ctl, &report.token);

  if (r == EXIT_OK)
    r = ctl_connect (ctl);
  if (r != EXIT_OK) {
    config_secret_free (report.token);
    return r;
  }
  take_ends (on_end);
  r = begin (&report);
  if (r == EXIT_OK) {
    snprintf (report.output, sizeof report.output, "%s%s",
              given ? given : report.name, given ? "" : ".tar.gz");
    snprintf (report.part, sizeof report.part, "%s.part", report.output);
    r = gather_apart (&report);
    remove_all (&report);
  }
  config_secret_free (report.token);
  take_ends (SIG_DFL);
  if (ended)
    raise (ended);
  return r;
}
