/* weftd.c: the controller and admin service: options, start and end.
 *
 * The order of the start is that of trust: the state directory is locked and
 * its database checked; the engine takes its records and a new generation; then
 * the HTTP server listens; then whoever waits for that finds the port file.
 */

#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http.h"
#include "log.h"
#include "loop.h"
#include "routes.h"
#include "store.h"

#define LISTEN_DEFAULT "127.0.0.1:7380"

struct options {
  const char *state, *listen, *port_file, *pid_file, *ui;
  struct http_options http;
  char address[16];
  char openapi[4096];
};

static const char usage[]
  = "Usage: weftd --state DIR [OPTION]...\n"
    "The controller and admin service of Weft.\n"
    "\n"
    "  --state DIR         keep everything in DIR/weftd.db; made if need be\n"
    "  --listen ADDR:PORT  serve HTTP there; a loopback address; port 0 takes\n"
    "                      any (default " LISTEN_DEFAULT ")\n"
    "  --port-file FILE    write the base URL to FILE once it is served\n"
    "  --pid-file FILE     write the process number to FILE\n"
    "  --ui DIR            serve the page from DIR (default: $WEFT_UI_DIR, or\n"
    "                      the installed one)\n"
    "  --list-routes       print each method and path of the API, and end\n"
    "  --help              print this, and end\n"
    "  --version           print the version, and end\n";

static int
bad_usage (const char *fmt, const char *what)
{
  char text[512];

  snprintf (text, sizeof text, fmt, what);
  fprintf (stderr, "weftd: %s; weftd --help lists the options\n", text);
  return EXIT_FAILURE;
}

static void
list_routes (void)
{
  for (size_t i = 0; i < routes_count; i++)
    printf ("%s %s\n", routes[i].method, routes[i].pattern);
}

/* "127.0.0.1:7380" into the options for the HTTP server.  Returns 0 or -1. */
static int
parse_listen (struct options *o)
{
  const char *colon = strrchr (o->listen, ':');
  struct in_addr in;
  unsigned long port;
  char *end;
  size_t n;

  if (colon == NULL || colon == o->listen) {
    bad_usage ("--listen %s: give ADDRESS:PORT", o->listen);
    return -1;
  }
  n = (size_t) (colon - o->listen);
  if (n == 9 && strncmp (o->listen, "localhost", 9) == 0)
    strcpy (o->address, "127.0.0.1");
  else if (n < sizeof o->address) {
    memcpy (o->address, o->listen, n);
    o->address[n] = '\0';
  }
  errno = 0;
  port = strtoul (colon + 1, &end, 10);
  if (colon[1] < '0' || colon[1] > '9' || *end || errno || port > 65535) {
    bad_usage ("--listen %s: the port must be a number from 0 to 65535",
               o->listen);
    return -1;
  }
  if (inet_pton (AF_INET, o->address, &in) != 1 ||
      (ntohl (in.s_addr) >> 24) != 127) {
    bad_usage ("--listen %s: weftd listens on a loopback address only (such "
               "as 127.0.0.1), because other hosts will need TLS, which this "
               "version does not have",
               o->listen);
    return -1;
  }
  o->http.address = o->address;
  o->http.port = (unsigned) port;
  return 0;
}

/* In the source tree for programs that are not installed. */
static void
find_files (struct options *o)
{
  const char *source = getenv ("WEFT_SRCDIR");

  o->http.ui_dir = o->ui                     ? o->ui
                   : getenv ("WEFT_UI_DIR") ? getenv ("WEFT_UI_DIR")
                                             : PKGDATADIR "/admin-ui";
  snprintf (o->openapi, sizeof o->openapi, "%s/docs/API/openapi.json",
            source ? source : "");
  if (source == NULL || access (o->openapi, R_OK) == -1)
    strcpy (o->openapi, PKGDATADIR "/openapi.json");
  o->http.openapi = o->openapi;
}

/* Returns -1 to go on, or the exit status. */
static int
parse_options (int argc, char **argv, struct options *o)
{
  enum { STATE = 256, LISTEN, PORT_FILE, PID_FILE, UI, LIST, HELP, VERSION_ };
  static const struct option longs[]
    = { { "state", required_argument, NULL, STATE },
        { "listen", required_argument, NULL, LISTEN },
        { "port-file", required_argument, NULL, PORT_FILE },
        { "pid-file", required_argument, NULL, PID_FILE },
        { "ui", required_argument, NULL, UI },
        { "list-routes", no_argument, NULL, LIST },
        { "help", no_argument, NULL, HELP },
        { "version", no_argument, NULL, VERSION_ },
        { NULL, 0, NULL, 0 } };
  int option;

  o->listen = LISTEN_DEFAULT;
  while ((option = getopt_long (argc, argv, "", longs, NULL)) != -1)
    switch (option) {
    case STATE:
      o->state = optarg;
      break;
    case LISTEN:
      o->listen = optarg;
      break;
    case PORT_FILE:
      o->port_file = optarg;
      break;
    case PID_FILE:
      o->pid_file = optarg;
      break;
    case UI:
      o->ui = optarg;
      break;
    case LIST:
      list_routes ();
      return EXIT_SUCCESS;
    case HELP:
      fputs (usage, stdout);
      return EXIT_SUCCESS;
    case VERSION_:
      puts ("weftd " PACKAGE_VERSION);
      return EXIT_SUCCESS;
    default: /* getopt has said what is wrong */
      fputs ("weftd: weftd --help lists the options\n", stderr);
      return EXIT_FAILURE;
    }
  if (optind < argc)
    return bad_usage ("%s: there is no such argument", argv[optind]);
  if (o->state == NULL || o->state[0] == '\0')
    return bad_usage ("--state is missing: give a directory for %s",
                      "weftd's database");
  if (parse_listen (o) == -1)
    return EXIT_FAILURE;
  find_files (o);
  return -1;
}

/* Whoever sees the file sees all of it. */
static int
write_file (const char *path, const char *text)
{
  char temporary[4096];
  FILE *f;

  if (path == NULL)
    return 0;
  snprintf (temporary, sizeof temporary, "%s.%ld", path, (long) getpid ());
  f = fopen (temporary, "we");
  if (f == NULL || fprintf (f, "%s\n", text) < 0 || fclose (f) != 0 ||
      rename (temporary, path) == -1) {
    log_line (CLUSTER_ERROR, "cannot write %s: %s", path, strerror (errno));
    unlink (temporary);
    return -1;
  }
  return 0;
}

static int
announce (const struct options *o, const struct http *http,
          const struct loop *loop)
{
  char url[64], pid[32];

  snprintf (url, sizeof url, "http://%s:%u", o->address, http_port (http));
  snprintf (pid, sizeof pid, "%ld", (long) getpid ());
  if (write_file (o->pid_file, pid) == -1 ||
      write_file (o->port_file, url) == -1)
    return -1;
  log_line (CLUSTER_INFO, "version %s serves %s from %s", PACKAGE_VERSION, url,
            o->state);
  return 0;
}

static int
serve (const struct options *o, struct store *store)
{
  char why[1024];
  struct hub *hub = hub_new ();
  struct loop *loop = loop_new (store, hub, why, sizeof why);
  struct http *http = NULL;
  int r = -1;

  if (loop)
    http = http_start (&o->http, loop, hub, why, sizeof why);
  if (http == NULL)
    log_line (CLUSTER_ERROR, "%s", why);
  else {
    if (announce (o, http, loop) == 0)
      r = loop_run (loop);
    else
      loop_end (loop);
    http_stop (http);
    if (o->pid_file)
      unlink (o->pid_file);
    if (o->port_file)
      unlink (o->port_file);
  }
  loop_free (loop);
  hub_free (hub);
  return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main (int argc, char **argv)
{
  struct options options = { 0 };
  char why[1024];
  struct store *store;
  mode_t mask;
  int r = parse_options (argc, argv, &options);

  if (r != -1)
    return r;
  setvbuf (stderr, NULL, _IOLBF, 0);
  /* Both are seen as errors of the write that met them. */
  signal (SIGPIPE, SIG_IGN);
  signal (SIGXFSZ, SIG_IGN);
  /* The state holds the keys of all members. */
  mask = umask (077);
  store = store_open (options.state, why, sizeof why);
  umask (mask);
  if (store == NULL) {
    log_line (CLUSTER_ERROR, "%s", why);
    return EXIT_FAILURE;
  }
  return serve (&options, store);
}
