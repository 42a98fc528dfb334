/* cmd-attach.c: weftctl attach.
 *
 * 1. Find the array process of this host by what weftd knows of the array's
 *    sessions, or behind the socket of weft-array@ARRAY.socket; or start one on
 *    a Unix socket in the run directory.  By way of the array's service: start one.
 * 2. Make a block device over its URI (device.c).  By way of the service, or by leases:
 *    not with a file system on it that two hosts would destroy.
 *
 * Each step is recorded (record.h) before it is taken; when one fails, those
 * before it are undone.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/disk.h"
#include "ctl.h"
#include "ctl-device.h"
#include "output.h"
#include "record.h"
#include "common/uri.h"

#define CONNECTIONS_DEFAULT 4
#define CONNECTIONS_MAX 16
#define RETRY_MS 500

/* --- Sessions on this host ----------------------------------------------- */

/* The command line of a process of this host, as words that end in NUL; its bytes, or 0.
 * The number of a process that has ended may be a thread's by now, which /proc shows like
 * a process.
 */
static size_t
command_line (uint64_t pid, char *text, size_t size)
{
  int process = pidfd_open ((pid_t) pid, 0);
  char path[64];
  size_t n;
  FILE *f;

  if (process == -1 && (errno == EINVAL || errno == ENOENT))
    return 0;
  if (process != -1)
    close (process);
  snprintf (path, sizeof path, "/proc/%" PRIu64 "/cmdline", pid);
  f = fopen (path, "re");
  if (f == NULL)
    return 0;
  n = fread (text, 1, size - 1, f);
  fclose (f);
  text[n] = '\0';
  return n;
}

/* The value of the word KEY=VALUE of a command line; NULL: there is none. */
static const char *
word_of (const char *text, size_t n, const char *key)
{
  size_t length = strlen (key);

  for (size_t i = 0; i < n; i += strlen (text + i) + 1)
    if (strncmp (text + i, key, length) == 0 && text[i + length] == '=')
      return text + i + length + 1;
  return NULL;
}

/* Is the session of a process of this host?  So an array process is recognised also where
 * it gives itself another node's name.  Any node may claim in its session the number of any
 * process and any URI: so the process itself must have been started for this array, and to
 * be reached by this URI, and not by a user to whom the data of this host is not open.
 */
static bool
session_is_here (const json_t *s, const char *name, const struct record *r)
{
  uint64_t pid = output_json_number (s, "pid");
  const char *uri = json_string_value (json_object_get (s, "uri"));
  const char *array, *own;
  char text[8192];
  size_t n = command_line (pid, text, sizeof text);

  array = word_of (text, n, "array");
  own = word_of (text, n, "uri");
  return array && strcmp (array, name) == 0 &&
         strcmp (own ? own : "", uri ? uri : "") == 0 &&
         process_is_trusted ((pid_t) pid, r->socket);
}

/* The meaning of weftd's sessions of the array for us. */
struct sessions {
  const char *uri;         /* of an array process here that answers */
  const json_t *here;      /* a session of this host, which may be dead */
  const json_t *elsewhere; /* a writing session of another host, or of a part */
  const json_t *writer;    /* a writing session, wherever it is */
  unsigned writers;
};

static bool
session_writes (const json_t *s)
{
  const char *mode = output_json_text (s, "mode");

  return strcmp (mode, "rw") == 0 || strcmp (mode, "shared") == 0;
}

/* Does it write beside others? */
static bool
session_is_beside (const json_t *s)
{
  return output_json_yes (s, "leases") ||
         json_is_object (json_object_get (s, "part"));
}

/* Is it what we ask for: the same part, or all by leases, or all? */
static bool
session_has_part (const json_t *array, const json_t *s, const struct record *r)
{
  const struct part *part = &r->part;
  const json_t *theirs = json_object_get (s, "part");
  uint64_t length = part->length
                      ? part->length
                      : output_json_number (array, "size") - part->offset;

  if (!part->given || !json_is_object (theirs))
    return part->given == json_is_object (theirs) &&
           r->leases == output_json_yes (s, "leases");
  return output_json_number (theirs, "offset") == part->offset &&
         output_json_number (theirs, "length") == length;
}

static struct sessions
look_at_sessions (const json_t *array, const char *node, const struct record *r)
{
  struct sessions found = { NULL, NULL, NULL, NULL, 0 };
  const char *name = output_json_text (array, "name"), *uri;
  bool served = json_is_object (json_object_get (array, "service"));
  json_t *s;
  size_t i;

  json_array_foreach (json_object_get (array, "sessions"), i, s) {
    bool writes = session_writes (s);
    bool lives = session_is_here (s, name, r);
    bool ours = strcmp (output_json_text (s, "node"), node) == 0,
         here = lives || ours;

    if (writes) {
      found.writer = s;
      found.writers++;
    }
    /* A sharing session here conflicts with a single writer; weftd reports the
     * reverse case.
     */
    if (writes && !r->part.given && !r->leases &&
        output_json_number (s, "last_heard_ms") <= SESSION_TTL_MS &&
        (!here || (lives && session_is_beside (s))))
      found.elsewhere = s;
    /* Of several that share the array, each node has one of its own. */
    if (!here || (r->leases && !ours))
      continue;
    /* A process that serves an array to other hosts has no more in common with
     * this one.
     */
    if (writes ? served || !session_has_part (array, s, r) : !r->readonly)
      continue;
    uri = json_string_value (json_object_get (s, "uri"));
    if (uri && found.uri == NULL && uri_answers (uri, URI_ANSWER_MS))
      found.uri = uri;
    found.here = s;
  }
  return found;
}

/* --- Starting an array process ------------------------------------------- */

struct attach {
  const char *node;
  bool fuse, print_uri, takeover, force;
  bool shared;          /* beside other hosts: */
  bool service, leases; /* by way of the array's service; by leases */
  struct part part;
  unsigned connections;
  bool pool;       /* for its volumes: the array itself is no disk */
  const char *uri; /* of a volume; NULL: the array process is looked for */
};

static int
start_server (struct ctl *ctl, struct record *r, const struct attach *a,
              char *said, size_t size)
{
  char socket[RECORD_PATH_BYTES], pid_file[RECORD_PATH_BYTES];
  char array[NAME_BYTES_MAX + 16];
  char node_is[NAME_BYTES_MAX + 16], admin[512], uri[sizeof r->uri + 8];
  char tls[4096], client_file[RECORD_PATH_BYTES];
  char client[sizeof client_file + 8], part[64];
  const char *argv[20] = { "nbdkit", "--foreground", "--pidfile",
                           pid_file, "-U",           socket };
  unsigned n = 6;
  int e, status;

  record_path (r, "nbd.sock", socket);
  record_path (r, "nbdkit.pid", pid_file);
  uri_of_socket (socket, r->uri, sizeof r->uri);
  snprintf (array, sizeof array, "%s=%s", r->service ? "service" : "array",
            r->name);
  snprintf (node_is, sizeof node_is, "node=%s", a->node);
  snprintf (admin, sizeof admin, "admin=%s", ctl->admin_url);
  snprintf (uri, sizeof uri, "uri=%s", r->uri);
  if (r->readonly)
    argv[n++] = "--readonly";
  argv[n++] = "weft";
  argv[n++] = array;
  argv[n++] = admin;
  argv[n++] = uri;
  argv[n++] = node_is;
  if (ctl->tls_dir) {
    snprintf (tls, sizeof tls, "tls=%s", ctl->tls_dir);
    argv[n++] = tls;
  }
  if (r->service) {
    record_path (r, "client", client_file);
    snprintf (client, sizeof client, "client=%s", client_file);
    argv[n++] = client;
  }
  if (r->leases)
    argv[n++] = "mode=shared";
  if (r->part.given) {
    snprintf (part, sizeof part, "part=%" PRIu64 "+", r->part.offset);
    if (r->part.length)
      output_text_add (part, sizeof part, "%" PRIu64, r->part.length);
    argv[n++] = "mode=shared";
    argv[n++] = part;
  }
  if (a->takeover)
    argv[n++] = "takeover=true";
  unlinkat (r->lock, "nbd.sock", 0);
  unlinkat (r->lock, "nbdkit.pid", 0);
  status = record_save (r);
  if (status != EXIT_OK)
    return status;
  e = process_start (argv, r->lock, "nbdkit.log", &r->server);
  if (e) {
    snprintf (said, size, "nbdkit: %s; install the package nbdkit",
              strerror (e));
    return EXIT_FAILED;
  }
  status = record_save (r);
  if (status != EXIT_OK)
    return status;
  e = process_wait_ready (&r->server, pid_file, ctl->timeout_ms);
  if (e == 0)
    return EXIT_OK;
  process_last_words (r->lock, "nbdkit.log", said, size);
  if (e == -1)
    r->server.pid = 0;
  return EXIT_FAILED;
}

/* Start one; while weftd still waits for one of this host that has died,
 * again.
 */
static int
start_server_patiently (struct ctl *ctl, struct record *r,
                        const struct attach *a, bool predecessor)
{
  uint64_t end = clock_ms () + ctl->timeout_ms;
  char said[600] = "";

  for (;;) {
    int status = start_server (ctl, r, a, said, sizeof said);

    if (status == EXIT_OK)
      return status;
    /* A function that left `said` empty has printed a message already. */
    if (said[0] == '\0')
      return status;
    if (!predecessor || r->server.pid || clock_ms () >= end)
      break;
    clock_sleep_ms (RETRY_MS);
  }
  ctl_error ("array %s: its array process %s: %s", r->name,
             r->server.pid ? "is not ready in time" : "did not start", said);
  return EXIT_FAILED;
}

/* The socket on which systemd starts this array's process, and then waits. */
static void
unit_uri (const struct record *r, char *uri, size_t size)
{
  uri_of_socket (r->socket, uri, size);
}

/* May the array be taken from who writes to it? */
static int
confirm_takeover (struct ctl *ctl, const char *name,
                  const struct sessions *found)
{
  char question[400], to_do[NAME_BYTES_MAX + 32], age[AGE_TEXT_BYTES];
  const json_t *writer = found->writer;

  if (writer == NULL)
    return EXIT_OK;
  snprintf (
    question, sizeof question,
    "Node %s (process %" PRIu64 ", last heard of %s ago) writes to "
    "array %s",
    output_json_text (writer, "node"), output_json_number (writer, "pid"),
    output_age (output_json_number (writer, "last_heard_ms"), age), name);
  if (found->writers > 1)
    output_text_add (
      question, sizeof question,
      ", and so do %u others.  All are cut off, and what they wrote",
      found->writers - 1);
  else
    output_text_add (question, sizeof question,
                     ".  It is cut off, and what it wrote");
  output_text_add (question, sizeof question,
                   " and did not flush is lost.  Take the array over? [y/N]");
  snprintf (to_do, sizeof to_do, "take it over from node %s",
            output_json_text (writer, "node"));
  return ctl_confirm_yes (ctl, name, question, "taken over", to_do);
}

/* An array process acts as its node, which may not have the right to take an
 * array from a live holder; an administrator who is logged in here has.
 */
static int
evict_writer (struct ctl *ctl, const json_t *writer)
{
  const char *id = output_json_text (writer, "session");
  char path[CTL_PATH_BYTES];
  json_t *me;
  int status;

  if (output_json_number (writer, "last_heard_ms") > SESSION_TTL_MS)
    return EXIT_OK;
  status = ctl_call (ctl, "GET", "/api/v1/me", NULL, &me);
  if (status != EXIT_OK)
    return status;
  if (strcmp (output_json_text (me, "role"), "admin") == 0 &&
      strcmp (output_json_text (me, "via"), "none") != 0) {
    snprintf (path, sizeof path, "/api/v1/sessions/%.40s", id);
    status = ctl_call (ctl, "DELETE", path, NULL, NULL);
  }
  json_decref (me);
  return status;
}

static int
find_server (struct ctl *ctl, struct record *r, const struct attach *a)
{
  struct sessions found;
  char age[AGE_TEXT_BYTES];
  json_t *array, *s;
  int status;
  size_t i;

  if (r->service)
    return start_server_patiently (ctl, r, a, false);
  status = ctl_get (ctl, "an array", r->name, "", &array);
  if (status != EXIT_OK)
    return status;
  found = look_at_sessions (array, a->node, r);
  if (json_is_object (json_object_get (array, "pool")) && !a->pool) {
    ctl_error ("array %s: it is a pool, and no disk itself: attach a volume of "
               "it, such as %s/NAME (weftctl volume ls %s)",
               r->name, r->name, r->name);
    json_decref (array);
    return EXIT_REFUSED;
  }
  if (json_is_object (json_object_get (array, "service")) && !r->readonly &&
      !a->takeover) {
    ctl_error ("array %s: it has a service, by which several hosts write to "
               "it: add --shared; or end that first (weftctl array service "
               "%s --off)",
               r->name, r->name);
    status = EXIT_REFUSED;
  }
  else if (found.uri)
    snprintf (r->uri, sizeof r->uri, "%s", found.uri);
  else if (a->takeover) {
    status = confirm_takeover (ctl, r->name, &found);
    json_array_foreach (json_object_get (array, "sessions"), i, s)
      if (status == EXIT_OK && session_writes (s))
        status = evict_writer (ctl, s);
    if (status == EXIT_OK)
      status = start_server_patiently (ctl, r, a, false);
  }
  else if (found.here && !output_json_has (found.here, "uri")) {
    ctl_error ("array %s: process %" PRIu64 " of this host serves it, but was "
               "started without uri=, so it can't be found; end it, or start "
               "it with uri=",
               r->name, output_json_number (found.here, "pid"));
    status = EXIT_FAILED;
  }
  else if (!found.here && found.elsewhere && !r->readonly) {
    ctl_error (
      "array %s: attached for writing by node %s (process %" PRIu64
      ", last heard of %s ago); detach it there, %s, or take it over "
      "with --takeover",
      r->name, output_json_text (found.elsewhere, "node"),
      output_json_number (found.elsewhere, "pid"),
      output_age (output_json_number (found.elsewhere, "last_heard_ms"), age),
      output_json_yes (found.elsewhere, "leases")
        ? "share it as it does with --shared"
        : "attach it here with --read-only");
    status = EXIT_REFUSED;
  }
  else {
    unit_uri (r, r->uri, sizeof r->uri);
    if (r->part.given || r->leases || !uri_answers (r->uri, ctl->timeout_ms))
      status = start_server_patiently (ctl, r, a, found.here != NULL);
  }
  json_decref (array);
  return status;
}

/* --- attach -------------------------------------------------------------- */

static int
make_device (struct ctl *ctl, struct record *r, const struct attach *a)
{
  bool kernel = !a->fuse && device_kernel_nbd ();
  int status, dead;

  if (!kernel && !a->fuse)
    fprintf (stderr, "weftctl: this kernel has no nbd: using nbdfuse and a "
                     "loop device\n");
  status = kernel ? device_open_nbd (ctl, r)
                  : device_open_loop (ctl, r, a->connections);
  dead = status == EXIT_OK ? device_dead (r->device) : 0;
  if (dead) {
    ctl_error ("array %s: each read from %s fails: %s; the array process at %s "
               "may have been evicted: end it (where systemd has it: systemctl "
               "restart weft-array@%s), then attach again",
               r->name, r->device, strerror (dead), r->uri, r->name);
    /* Nothing was written, so there is nothing to flush either. */
    device_close (ctl, r);
    status = EXIT_FAILED;
  }
  if (status == EXIT_OK)
    device_find_partitions (r);
  return status;
}

/* May other hosts use the data on the device at the same time?  A later host
 * must not destroy it either, so it does not matter whether any does so now.
 */
static int
check_shared (const struct record *r)
{
  char text[256], why[512];

  switch (disk_of_one_host (r->device, text, why, sizeof why)) {
  case 0:
    return EXIT_OK;
  case 1:
    ctl_error ("array %s: there is %s on it, which is destroyed when two hosts "
               "use it; put a cluster file system there (man weft-shared), or "
               "add --force if you ensure that only one host at a time uses it",
               r->name, text);
    return EXIT_FAILED;
  default:
    ctl_error (
      "array %s: %s, so it may be a file system that only one host may "
      "mount; add --force if you know better",
      r->name, why);
    return EXIT_FAILED;
  }
}

/* Has the array process that attach started lost its session, as after an
 * eviction?  Where weftd can't be asked it is taken to have it.
 */
static bool
session_is_over (struct ctl *ctl, const struct record *r)
{
  char path[CTL_PATH_BYTES];
  json_t *array, *s;
  bool over = true;
  size_t i;

  if (r->service) /* it has none */
    return false;
  ctl_path ("an array", r->name, "", path);
  if (ctl_try (ctl, "GET", path, NULL, &array) != EXIT_OK)
    return false;
  json_array_foreach (json_object_get (array, "sessions"), i, s)
    if (output_json_number (s, "pid") == (uint64_t) r->server.pid)
      over = false;
  json_decref (array);
  return over;
}

/* Is what the record tells of still in working order? */
static bool
record_works (struct ctl *ctl, const struct record *r)
{
  int dead;

  if (r->unseen || (r->server.pid && !process_alive (&r->server)))
    return false;
  if (r->kind != DEVICE_NONE && !device_present (r))
    return false;
  if (r->mounted && !process_alive (&r->fuse))
    return false;
  if (r->uri[0] == '\0' || !uri_answers (r->uri, URI_ANSWER_MS))
    return false;
  if (r->kind == DEVICE_NONE)
    return !session_is_over (ctl, r);
  dead = device_dead (r->device);
  if (dead)
    fprintf (stderr,
             "weftctl: array %s: each read from %s fails: %s; it is detached, "
             "and attached again\n",
             r->name, r->device, strerror (dead));
  return !dead;
}

static int
attach_new (struct ctl *ctl, struct record *r, const struct attach *a)
{
  int status = EXIT_OK;

  if (a->uri)
    snprintf (r->uri, sizeof r->uri, "%s", a->uri);
  if (r->uri[0] == '\0')
    status = find_server (ctl, r, a);
  r->unseen = !a->print_uri && (r->service || r->leases) && !r->readonly &&
              !a->force;
  if (status == EXIT_OK && !a->print_uri)
    status = make_device (ctl, r, a);
  if (status == EXIT_OK && r->unseen) {
    status = check_shared (r);
    r->unseen = false;
  }
  /* We have started neither a process nor a device, so there is nothing to
   * undo.
   */
  if (status == EXIT_OK && a->print_uri && r->server.pid == 0 &&
      r->kind == DEVICE_NONE)
    record_remove (r);
  else if (status == EXIT_OK)
    status = record_save (r);
  else if (detach_undo (ctl, r) != EXIT_OK)
    ctl_error ("array %s: is half attached; weftctl detach %s", r->name,
               r->name);
  return status;
}

/* There is a record: go on from there. */
static int
attach_again (struct ctl *ctl, struct record *r, const struct attach *a,
              bool readonly)
{
  int status;

  if (r->service != a->service && record_works (ctl, r)) {
    ctl_error ("array %s: attached already%s%s, but %s its service; weftctl "
               "detach %s first",
               r->name, r->kind == DEVICE_NONE ? "" : " as ",
               r->kind == DEVICE_NONE ? "" : r->device,
               r->service ? "by way of" : "not by way of", r->name);
    return EXIT_FAILED;
  }

  if (r->leases != a->leases && record_works (ctl, r)) {
    ctl_error ("array %s: attached already%s%s, but %s; weftctl detach %s "
               "first",
               r->name, r->kind == DEVICE_NONE ? "" : " as ",
               r->kind == DEVICE_NONE ? "" : r->device,
               r->leases       ? "beside other hosts, by leases"
               : r->part.given ? "for a part of it alone"
                               : "not beside other hosts",
               r->name);
    return EXIT_FAILED;
  }

  if ((r->part.given != a->part.given || r->part.offset != a->part.offset ||
       r->part.length != a->part.length) &&
      record_works (ctl, r)) {
    ctl_error ("array %s: attached already%s%s, but %s; weftctl detach %s "
               "first",
               r->name, r->kind == DEVICE_NONE ? "" : " as ",
               r->kind == DEVICE_NONE ? "" : r->device,
               !r->part.given   ? "not for a part of it alone"
               : !a->part.given ? "for a part of it alone"
                                : "for another part of it",
               r->name);
    return EXIT_FAILED;
  }

  if (!record_works (ctl, r)) {
    /* That attach was interrupted, or something that it made has died. */
    status = detach_undo (ctl, r);
    /* If all is undone and something was lost on the way, a message has said
     * so, and it is no reason to stop.
     */
    if (status != EXIT_OK && r->found)
      return status;
    record_close (r);
    status = record_open (ctl, r, r->name, true);
    if (status != EXIT_OK)
      return status;
    r->readonly = readonly;
    r->service = a->service;
    r->leases = a->leases;
    r->part = a->part;
    return attach_new (ctl, r, a);
  }
  if (r->readonly != readonly && !a->print_uri) {
    ctl_error ("array %s: attached already%s%s, but for %s; weftctl detach %s "
               "first",
               r->name, r->kind == DEVICE_NONE ? "" : " as ",
               r->kind == DEVICE_NONE ? "" : r->device,
               r->readonly ? "reading only" : "writing", r->name);
    return EXIT_FAILED;
  }
  if (r->kind == DEVICE_NONE)
    return attach_new (ctl, r, a);
  return EXIT_OK;
}

/* Beside other hosts it is attached by way of its service where it has one, else by
 * leases; and as it is attached already, whatever becomes of the service.
 */
static int
choose_shared (struct ctl *ctl, const struct record *r, struct attach *a,
               bool readonly)
{
  json_t *array;
  int status;

  if ((r->service || r->leases) && record_works (ctl, r)) {
    a->service = r->service;
    a->leases = r->leases;
    return EXIT_OK;
  }
  status = ctl_get (ctl, "an array", r->name, "", &array);
  if (status != EXIT_OK)
    return status;
  a->service = json_is_object (json_object_get (array, "service"));
  a->leases = !a->service && !readonly; /* a reader needs none */
  json_decref (array);
  return EXIT_OK;
}

/* weft-attach has made the device already. */
static int
take_kept (struct record *r, bool readonly)
{
  int dead = device_dead (r->device);

  if (dead) {
    ctl_error (
      "array %s: each read from %s, which weft-attach@%s.service keeps "
      "attached, fails: %s; its array process may have been evicted: "
      "systemctl restart weft-array@%s",
      r->name, r->device, r->name, strerror (dead), r->name);
    return EXIT_FAILED;
  }
  if (readonly) {
    ctl_error ("array %s: attached already as %s by weft-attach@%s.service, "
               "but for writing; systemctl stop it first",
               r->name, r->device, r->name);
    return EXIT_FAILED;
  }
  r->kind = DEVICE_NBD;
  unit_uri (r, r->uri, sizeof r->uri);
  return EXIT_OK;
}

/* OFFSET+LENGTH, or OFFSET+. */
static int
take_part (const char *value, struct part *part)
{
  const char *plus = value ? strchr (value, '+') : NULL;
  char offset[32];

  if (value == NULL)
    return EXIT_OK;
  snprintf (offset, sizeof offset, "%.*s", plus ? (int) (plus - value) : 0,
            value);
  part->given = true;
  if (plus && ctl_parse_size (offset, &part->offset) == 0 &&
      part->offset <= INT64_MAX &&
      (plus[1] == '\0' || (ctl_parse_size (plus + 1, &part->length) == 0 &&
                           part->length > 0 && part->length <= INT64_MAX)))
    return EXIT_OK;
  ctl_error ("--part %s: must be OFFSET+LENGTH, such as 0+10G, or OFFSET+ for "
             "all up to the array's end",
             value);
  return EXIT_USAGE;
}

/* --- A volume ------------------------------------------------------------- */

/* The URI of a volume: that of the pool's process, with the name of an export. */
static void
volume_uri (const char *pool, const char *name, char *uri, size_t size)
{
  const char *host = strstr (pool, "://") + 3;
  size_t n = strcspn (host, "/?");

  snprintf (uri, size, "%.*s/%s%s", (int) (host + n - pool), pool, name,
            strchr (pool, '?') ? strchr (pool, '?') : "");
}

/* The process of this host that has the pool, which is found or started, as by attach
 * --print-uri.
 */
static int
find_pool (struct ctl *ctl, const struct attach *a, const char *name, char *uri,
           size_t size)
{
  struct attach pool = *a;
  struct record r;
  int status = record_open (ctl, &r, name, true);

  pool.print_uri = pool.pool = true;
  if (status == EXIT_OK)
    status = r.found ? attach_again (ctl, &r, &pool, false)
                     : attach_new (ctl, &r, &pool);
  snprintf (uri, size, "%s", r.uri);
  record_close (&r);
  return status;
}

static int
attach_volume (struct ctl *ctl, struct attach *a, const char *name,
               bool readonly)
{
  char pool[sizeof ((struct record *) NULL)->uri], path[CTL_PATH_BYTES];
  char uri[sizeof pool + NAME_BYTES_MAX + 2];
  struct volume_name v;
  struct record r;
  int status = volume_split (name, &v);

  if (status == EXIT_OK && (a->shared || a->part.given)) {
    ctl_error ("%s: a volume cannot be attached with --%s: one host at a time "
               "has its pool",
               name, a->shared ? "shared" : "part");
    status = EXIT_USAGE;
  }
  if (status != EXIT_OK)
    return status;
  snprintf (path, sizeof path, "/api/v1/arrays/%s/volumes/%s", v.pool, v.name);
  status = ctl_call (ctl, "GET", path, NULL, NULL);
  if (status == EXIT_OK)
    status = find_pool (ctl, a, v.pool, pool, sizeof pool);
  if (status != EXIT_OK)
    return status;
  volume_uri (pool, v.name, uri, sizeof uri);
  if (a->print_uri)
    return ctl_say (ctl, status,
                    json_pack ("{s:s, s:s}", "array", name, "uri", uri), "%s",
                    uri);
  a->uri = uri;
  status = record_open (ctl, &r, name, true);
  if (status == EXIT_OK && r.found)
    status = attach_again (ctl, &r, a, readonly);
  else if (status == EXIT_OK) {
    r.readonly = readonly;
    status = attach_new (ctl, &r, a);
  }
  record_close (&r);
  return ctl_say (ctl, status, record_json (&r), "%s", r.device);
}

int
cmd_attach (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *given = args_value (args, "node");
  const char *node = given ? given : ctl->node;
  struct attach a = { .fuse = args_switch (args, "fuse"),
                      .print_uri = args_switch (args, "print-uri"),
                      .takeover = args_switch (args, "takeover"),
                      .shared = args_switch (args, "shared") ||
                                args_switch (args, "service"),
                      .force = args_switch (args, "force") };
  bool readonly = args_switch (args, "read-only");
  uint64_t connections = CONNECTIONS_DEFAULT;
  char host[NAME_BYTES_MAX + 1];
  struct record r;
  bool volume = strchr (name, '/') != NULL;
  int status = volume ? EXIT_OK : ctl_check_name ("an array", name);

  if (status == EXIT_OK && node)
    status = ctl_check_name ("a node", node);
  if (status == EXIT_OK)
    status = args_number (args, "connections", 1, CONNECTIONS_MAX,
                          &connections);
  if (status == EXIT_OK)
    status = take_part (args_value (args, "part"), &a.part);
  if (status == EXIT_OK && a.part.given && (a.shared || readonly)) {
    ctl_error ("--part cannot be combined with --%s: --part writes a part of "
               "the array; leave one of them out",
               a.shared ? "shared" : "read-only");
    status = EXIT_USAGE;
  }
  if (status == EXIT_OK && a.part.given && a.takeover) {
    ctl_error (
      "--takeover cannot be combined with --part: it takes over a whole array; "
      "to end the session that has the part, use weftctl session evict");
    status = EXIT_USAGE;
  }
  if (status == EXIT_OK && a.shared && a.takeover) {
    ctl_error ("--takeover cannot be combined with --shared; to move the "
               "service, use weftctl array service %s --move; to end the "
               "session of a single writer, use weftctl session evict",
               name);
    status = EXIT_USAGE;
  }
  if (status == EXIT_OK && a.force && !a.shared) {
    ctl_error ("--force: it belongs to --shared");
    status = EXIT_USAGE;
  }
  if (status == EXIT_OK && readonly && a.takeover) {
    ctl_error ("--takeover: with --read-only there is nothing to take over");
    status = EXIT_USAGE;
  }
  if (status != EXIT_OK)
    return status;
  ctl_node_name (host);
  a.node = node ? node : host;
  a.connections = (unsigned) connections;
  a.pool = a.print_uri;
  if (volume)
    return attach_volume (ctl, &a, name, readonly);

  status = record_open (ctl, &r, name, true);
  if (status == EXIT_OK && a.shared) {
    status = choose_shared (ctl, &r, &a, readonly);
    if (status != EXIT_OK && !r.found)
      record_remove (&r);
  }
  if (status == EXIT_OK && r.found)
    status = attach_again (ctl, &r, &a, readonly);
  else if (status == EXIT_OK && !a.print_uri && !a.shared && !a.part.given &&
           device_kept (name, r.device)) {
    status = take_kept (&r, readonly);
    record_remove (&r);
  }
  else if (status == EXIT_OK) {
    r.readonly = readonly;
    r.service = a.service;
    r.leases = a.leases;
    r.part = a.part;
    status = attach_new (ctl, &r, &a);
  }
  record_close (&r);
  return ctl_say (ctl, status, record_json (&r), "%s",
                  a.print_uri ? r.uri : r.device);
}
