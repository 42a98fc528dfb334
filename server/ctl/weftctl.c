/* weftctl.c: the list of commands, main, and the calls to weftd.
 *
 * Follow a command: main -> options_parse -> the command's function in
 * cmd-NOUN.c -> ctl_call -> plugin/admin.c.
 */

#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "admin.h"
#include "ctl.h"
#include "output.h"

static const struct option disk_format_options[] = {
  { "force", NULL, "format even where something is found on the disk" },
  { NULL, NULL, NULL }
};

static const struct option array_create_options[] = {
  { "layout", "LAYOUT",
    "raid-x (the default), raid-10, chained, rotated, raid-1, raid-0" },
  { "disk", "DISK",
    "UUID (or its beginning), NODE:PATH, or PATH; in order of position" },
  { "unit", "SIZE", "stripe unit, 4K to 4M, a power of two (256K)" },
  { "groups", "K", "independent stripe groups, each of disks / K disks (1)" },
  { "dup", "PROTOCOL",
    "when a write is acknowledged: async-client or sync-client" },
  { "dry-run", NULL, "show the plan and stop" },
  { NULL, NULL, NULL }
};

static const struct option array_set_options[] = {
  { "spare-after", "SECONDS",
    "a spare replaces a member that has been out so long; 0: never (600)" },
  { NULL, NULL, NULL }
};

static const struct option array_import_options[] = {
  { "without", "MEMBER", "give this member up, and all that it alone has" },
  { NULL, NULL, NULL }
};

static const struct option rebuild_rate_options[] = {
  { "floor", "SIZE", "bytes a second that it may always take; 0: the default" },
  { "ceiling", "SIZE", "bytes a second at most; 0: no limit" },
  { NULL, NULL, NULL }
};

static const struct option attach_options[] = {
  { "fuse", NULL, "a loop device over nbdfuse, even if the kernel has nbd" },
  { "print-uri", NULL, "attach nothing; print the NBD URI for other clients" },
  { "connections", "N", "NBD connections, 1 to 16 (4)" },
  { "read-only", NULL, "attach for reading only" },
  { "node", "NAME", "name of this host as weftd knows it (its host name)" },
  { "takeover", NULL,
    "take it from the host that writes; what that has not flushed is lost" },
  { NULL, NULL, NULL }
};

const struct command commands[] = {
  { "status", NULL, "", 0, 0, "the whole on one page", NULL, cmd_status },
  { "node", "ls", "", 0, 0, "the hosts that weftd has heard of", NULL,
    cmd_node_ls },
  { "disk", "format", "PATH... [--force]", 1, 1024,
    "make disks or files into members for an array (local; needs no weftd)",
    disk_format_options, cmd_disk_format },
  { "disk", "ls", "", 0, 0, "the disks that weftd has heard of", NULL,
    cmd_disk_ls },
  { "disk", "forget", "DISK", 1, 1,
    "drop a disk that is silent and in no array from weftd's list", NULL,
    cmd_disk_forget },
  { "array", "create", "NAME --disk DISK... [options]", 1, 1024,
    "make an array: shows the plan, asks, and waits until it is ready",
    array_create_options, cmd_array_create },
  { "array", "ls", "", 0, 0, "the arrays", NULL, cmd_array_ls },
  { "array", "show", "NAME", 1, 1, "an array, its members and sessions", NULL,
    cmd_array_show },
  { "array", "rm", "NAME", 1, 1,
    "remove an array and its data; wants the name typed, or --yes", NULL,
    cmd_array_rm },
  { "array", "replace", "NAME MEMBER DISK", 3, 3,
    "give the place of a member that is out to another disk, and rebuild it",
    NULL, cmd_array_replace },
  { "array", "spare", "add|rm NAME DISK", 3, 3,
    "keep a disk as a spare for the array, or no longer", NULL,
    cmd_array_spare },
  { "array", "set", "NAME --spare-after SECONDS", 1, 1,
    "when a spare takes the place of a member that is out", array_set_options,
    cmd_array_set },
  { "array", "import", "[NAME ARRAY-UUID [--without MEMBER]...]", 0, 2,
    "take an array over from its members alone; with nothing, show what is "
    "there", array_import_options, cmd_array_import },
  { "rebuild", "ls", "", 0, 0, "members that are being rebuilt", NULL,
    cmd_rebuild_ls },
  { "rebuild", "wait", "ARRAY MEMBER", 2, 2,
    "show the progress, and end when the member is in-sync", NULL,
    cmd_rebuild_wait },
  { "rebuild", "pause", "ARRAY MEMBER", 2, 2, "stop copying for now", NULL,
    cmd_rebuild_pause },
  { "rebuild", "resume", "ARRAY MEMBER", 2, 2, "go on copying", NULL,
    cmd_rebuild_resume },
  { "rebuild", "cancel", "ARRAY MEMBER", 2, 2,
    "end it: the member is out, and stays so until rebuild join", NULL,
    cmd_rebuild_cancel },
  { "rebuild", "join", "ARRAY MEMBER", 2, 2,
    "take back a member that was held out", NULL, cmd_rebuild_join },
  { "rebuild", "rate", "ARRAY MEMBER [--floor SIZE] [--ceiling SIZE]", 2, 2,
    "how fast it may be, in bytes a second", rebuild_rate_options,
    cmd_rebuild_rate },
  { "map", NULL, "ARRAY [OFFSET [LENGTH]]", 1, 3,
    "which members hold a range; without an offset, a picture of the layout",
    NULL, cmd_map },
  { "attach", NULL, "ARRAY [options]", 1, 1,
    "make the array a block device of this host and print its path",
    attach_options, cmd_attach },
  { "detach", NULL, "ARRAY", 1, 1,
    "flush and undo what attach did on this host", NULL, cmd_detach },
  { NULL, NULL, NULL, 0, 0, NULL, NULL, NULL }
};

void
ctl_error (const char *format, ...)
{
  va_list ap;
  char *text;

  va_start (ap, format);
  if (vasprintf (&text, format, ap) == -1)
    text = NULL;
  va_end (ap);
  fflush (stdout);
  if (text == NULL) {
    fputs ("weftctl: out of memory\n", stderr);
    return;
  }
  text_clean (text);
  fprintf (stderr, "weftctl: %s\n", text);
  free (text);
}

uint64_t
ctl_now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

void
ctl_sleep_ms (unsigned ms)
{
  struct timespec ts = { ms / 1000, (long) (ms % 1000) * 1000000 };

  while (nanosleep (&ts, &ts) == -1 && errno == EINTR)
    ;
}

void
ctl_node_name (char name[NAME_BYTES_MAX + 1])
{
  char host[NAME_BYTES_MAX + 1] = "";

  if (gethostname (host, NAME_BYTES_MAX) == -1)
    host[0] = '\0';
  host[NAME_BYTES_MAX] = '\0';
  host[strcspn (host, ".")] = '\0';
  strcpy (name, host);
  for (char *p = name; *p; p++) {
    *p = (char) tolower ((unsigned char) *p);
    if (!isalnum ((unsigned char) *p))
      *p = '-';
  }
  if (!name_valid (name))
    strcpy (name, "localhost");
}

int
ctl_call (struct ctl *ctl, const char *method, const char *path,
          const json_t *body, json_t **reply)
{
  json_t *json = NULL;
  int status;

  if (ctl->admin == NULL && (ctl->admin = admin_new (ctl->admin_url)) == NULL) {
    ctl_error ("%s: not the URL of a weftd; give one such as "
               "http://127.0.0.1:7380 by --admin or WEFT_ADMIN",
               ctl->admin_url);
    return EXIT_USAGE;
  }
  status = admin_call (ctl->admin, method, path, body, &json, ctl->timeout_ms);
  if (status >= 200 && status < 300) {
    if (reply)
      *reply = json;
    else
      json_decref (json);
    return EXIT_OK;
  }
  json_decref (json);
  if (status == -1) {
    ctl_error ("%s (weftctl takes the address from --admin or WEFT_ADMIN)",
               admin_error (ctl->admin));
    return EXIT_UNREACHABLE;
  }
  if (status < 400) {
    ctl_error ("weftd at %s: answers %s %s with status %d; is this really a "
               "weftd?", ctl->admin_url, method, path, status);
    return EXIT_FAILED;
  }
  ctl_error ("%s", admin_error (ctl->admin));
  return status == 500 ? EXIT_FAILED : EXIT_REFUSED;
}

bool
ctl_list (struct ctl *ctl, const char *path, json_t **reply, int *status)
{
  *status = ctl_call (ctl, "GET", path, NULL, reply);
  if (*status != EXIT_OK)
    return false;
  if (!ctl->json)
    return true;
  output_json (*reply);
  json_decref (*reply);
  return false;
}

int
ctl_get_array (struct ctl *ctl, const char *name, json_t **array)
{
  char path[128];
  int r = ctl_check_name ("an array", name);

  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, "/api/v1/arrays/%s", name);
  return ctl_call (ctl, "GET", path, NULL, array);
}

/* losetup, modprobe and nbd-client live in directories that an ordinary
 * user's PATH leaves out.
 */
static void
extend_path (void)
{
  const char *path = getenv ("PATH");
  char *longer;

  if (asprintf (&longer, "%s%s/usr/sbin:/sbin:/usr/bin:/bin",
                path ? path : "", path && *path ? ":" : "") == -1)
    return;
  setenv ("PATH", longer, 1);
  free (longer);
}

int
main (int argc, char **argv)
{
  struct ctl ctl = { .admin = NULL };
  const struct command *command;
  struct args args = { NULL, 0 };
  int r;

  setlocale (LC_CTYPE, "");
  extend_path ();
  args.arg = calloc ((size_t) argc + 1, sizeof *args.arg);
  if (args.arg == NULL) {
    ctl_error ("out of memory");
    return EXIT_FAILED;
  }
  r = options_parse (argc, argv, &ctl, &command, &args);
  if (r == EXIT_OK && command) {
    admin_global_init ();
    r = command->run (&ctl, &args);
  }
  admin_free (ctl.admin);
  free (args.arg);
  if (fflush (stdout) != 0 || ferror (stdout)) {
    ctl_error ("standard output: %s; what was printed is not complete",
               strerror (errno));
    return r == EXIT_OK ? EXIT_FAILED : r;
  }
  return r;
}
