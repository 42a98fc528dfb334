/* weftd.c: the controller and admin service: options, start and end.
 *
 * The order of the start is that of trust: the state directory is locked and
 * its database checked; the engine takes its records and a new generation; then
 * the HTTP server listens; then the port file is written.
 */

#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "audit-log.h"
#include "http.h"
#include "log.h"
#include "loop.h"
#include "common/notify.h"
#include "restore.h"
#include "routes.h"
#include "store/store.h"
#include "tls.h"

#define LISTEN_DEFAULT "127.0.0.1:7380"
/* Larger pieces of memory are mapped each by itself. */
#define MAPPED_BYTES (128 << 10)
#define TUNABLES "GLIBC_TUNABLES"
/* A node gets its next certificate when a third of this is over: so much longer weftd
 * may be down.
 */
#define CERTIFICATE_DAYS_USUAL 7
#define CERTIFICATE_DAYS_MAX 365

struct options {
  const char *state, *port_file, *pid_file, *ui, *restore, *passphrase_file,
    *audit_log;
  struct http_options http;
  bool no_login, setup, replace;
  unsigned certificate_days;
  struct ca_networks networks;
  char openapi[4096];
};

static const char usage[] =
  "Usage: weftd --state DIR [OPTION]...\n"
  "The controller and admin service of Weft.\n"
  "\n"
  "  --state DIR         keep everything in DIR/weftd.db; created if it is "
  "missing\n"
  "  --listen ADDR:PORT  listen there: a loopback address by HTTP, another by\n"
  "                      HTTPS; port 0 takes any; may be given several times\n"
  "                      (default " LISTEN_DEFAULT ")\n"
  "  --host-name NAME    a name of this host for its certificate; several "
  "allowed\n"
  "  --ca-network NET    a new CA can sign only addresses of this network;\n"
  "                      may be given several times (default: private "
  "networks\n"
  "                      and those of this host's interfaces)\n"
  "  --certificate-days N  validity of the nodes' certificates (default 7)\n"
  "  --port-file FILE    write the base URLs to FILE once they are served\n"
  "  --pid-file FILE     write the process number to FILE\n"
  "  --audit-log FILE    write the audit trail to FILE, too, each line with "
  "the\n"
  "                      hash of the one before; syslog: send it there; "
  "SIGHUP\n"
  "                      opens FILE again\n"
  "  --no-login          every caller may do everything: for tests only\n"
  "  --setup             make a one-time URL to log in as an administrator,\n"
  "                      in DIR/setup-url, as without any user\n"
  "  --ui DIR            serve the page from DIR (default: $WEFT_UI_DIR, or\n"
  "                      the installed one)\n"
  "  --restore FILE      replace the state by a backup (weftctl backup), and "
  "end;\n"
  "                      weftd must not run meanwhile\n"
  "  --passphrase-file FILE  the backup's passphrase, in the first line; -:\n"
  "                      from stdin (default: ask on the terminal)\n"
  "  --replace           restore even if there is a state, which is kept "
  "aside\n"
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

/* Takes "127.0.0.1:7380" or "[::1]:7380".  Returns 0, or what bad_usage does. */
static int
parse_listen (struct options *o, const char *text)
{
  struct listener *to = &o->http.listeners[o->http.listeners_count];
  const char *colon = strrchr (text, ':'), *from = text;
  struct in6_addr in6;
  struct in_addr in;
  unsigned long port;
  bool loopback;
  char *end;
  size_t n;

  if (o->http.listeners_count == LISTENERS_MAX)
    return bad_usage ("--listen %s: that is one too many", text);
  if (colon == NULL || colon == text)
    return bad_usage ("--listen %s: give ADDRESS:PORT", text);
  n = (size_t) (colon - text);
  if (text[0] == '[' && text[n - 1] == ']') {
    from++;
    n -= 2;
  }
  if (n == 9 && strncmp (from, "localhost", 9) == 0)
    strcpy (to->address, "127.0.0.1");
  else if (n < sizeof to->address) {
    memcpy (to->address, from, n);
    to->address[n] = '\0';
  }
  errno = 0;
  port = strtoul (colon + 1, &end, 10);
  if (colon[1] < '0' || colon[1] > '9' || *end || errno || port > 65535)
    return bad_usage ("--listen %s: the port must be a number from 0 to 65535",
                      text);
  to->port = (unsigned) port;
  if (from == text && inet_pton (AF_INET, to->address, &in) == 1) {
    loopback = (ntohl (in.s_addr) >> 24) == 127;
    to->any = in.s_addr == INADDR_ANY;
  }
  else if (from > text && inet_pton (AF_INET6, to->address, &in6) == 1) {
    inet_ntop (AF_INET6, &in6, to->address, sizeof to->address);
    loopback = IN6_IS_ADDR_LOOPBACK (&in6);
    to->any = IN6_IS_ADDR_UNSPECIFIED (&in6);
  }
  else
    return bad_usage (
      "--listen %s: the address must be one of this host's, such as 192.0.2.1 "
      "or [2001:db8::1], or 0.0.0.0 for all of them",
      text);
  to->tls = !loopback;
  o->http.listeners_count++;
  return 0;
}

static int
parse_host_name (struct options *o, const char *name)
{
  size_t n = strlen (name);

  if (n == 0 || n > 253 || name[0] == '-' || name[0] == '.' ||
      strspn (name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != n)
    return bad_usage ("--host-name %s: give a host name in lower case", name);
  if (o->http.host_names_count == LISTENERS_MAX)
    return bad_usage ("--host-name %s: that is one too many", name);
  o->http.host_names[o->http.host_names_count++] = name;
  return 0;
}

static int
parse_days (struct options *o, const char *text)
{
  char *end;
  unsigned long days = strtoul (text, &end, 10);

  if (text[0] < '1' || text[0] > '9' || *end != '\0' ||
      days > CERTIFICATE_DAYS_MAX)
    return bad_usage (
      "--certificate-days %s: give a number of days from 1 to 365", text);
  o->certificate_days = (unsigned) days;
  return 0;
}

static int
check_listeners (struct options *o)
{
  if (o->http.listeners_count == 0 && parse_listen (o, LISTEN_DEFAULT) != 0)
    return EXIT_FAILURE;
  for (unsigned i = 0; i < o->http.listeners_count; i++)
    if (o->no_login && o->http.listeners[i].tls)
      return bad_usage (
        "--no-login is for loopback addresses only, and %s is none: other "
        "hosts need a login and TLS, so leave --no-login out",
        o->http.listeners[i].address);
  return 0;
}

/* In the source tree for programs that are not installed. */
static void
find_files (struct options *o)
{
  const char *source = getenv ("WEFT_SRCDIR");

  o->http.ui_dir = o->ui                    ? o->ui
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
  enum {
    STATE = 256, /* the first seven are taken as they are */
    PORT_FILE,
    PID_FILE,
    UI,
    RESTORE,
    PASSPHRASE_FILE,
    AUDIT_LOG,
    REPLACE,
    LISTEN,
    HOST_NAME,
    CA_NETWORK,
    CERTIFICATE_DAYS,
    NO_LOGIN,
    SETUP,
    LIST,
    HELP,
    VERSION_
  };
  static const struct option longs[] = {
    { "state", required_argument, NULL, STATE },
    { "listen", required_argument, NULL, LISTEN },
    { "host-name", required_argument, NULL, HOST_NAME },
    { "ca-network", required_argument, NULL, CA_NETWORK },
    { "certificate-days", required_argument, NULL, CERTIFICATE_DAYS },
    { "port-file", required_argument, NULL, PORT_FILE },
    { "pid-file", required_argument, NULL, PID_FILE },
    { "audit-log", required_argument, NULL, AUDIT_LOG },
    { "no-login", no_argument, NULL, NO_LOGIN },
    { "setup", no_argument, NULL, SETUP },
    { "ui", required_argument, NULL, UI },
    { "restore", required_argument, NULL, RESTORE },
    { "passphrase-file", required_argument, NULL, PASSPHRASE_FILE },
    { "replace", no_argument, NULL, REPLACE },
    { "list-routes", no_argument, NULL, LIST },
    { "help", no_argument, NULL, HELP },
    { "version", no_argument, NULL, VERSION_ },
    { NULL, 0, NULL, 0 }
  };
  const char **texts[] = { &o->state,    &o->port_file, &o->pid_file,
                           &o->ui,       &o->restore,   &o->passphrase_file,
                           &o->audit_log };
  int option;

  while ((option = getopt_long (argc, argv, "", longs, NULL)) != -1)
    switch (option) {
    case STATE:
    case PORT_FILE:
    case PID_FILE:
    case UI:
    case RESTORE:
    case PASSPHRASE_FILE:
    case AUDIT_LOG:
      *texts[option - STATE] = optarg;
      break;
    case LISTEN:
      if (parse_listen (o, optarg) != 0)
        return EXIT_FAILURE;
      break;
    case HOST_NAME:
      if (parse_host_name (o, optarg) != 0)
        return EXIT_FAILURE;
      break;
    case CA_NETWORK:
      if (!ca_network (&o->networks, optarg))
        return bad_usage (
          "--ca-network %s: give a network such as 10.0.0.0/8 or fd00::/8, at "
          "most 64 of them",
          optarg);
      break;
    case CERTIFICATE_DAYS:
      if (parse_days (o, optarg) != 0)
        return EXIT_FAILURE;
      break;
    case NO_LOGIN:
      o->no_login = true;
      break;
    case SETUP:
      o->setup = true;
      break;
    case REPLACE:
      o->replace = true;
      break;
    case LIST:
      for (size_t i = 0; routes_at (i) != NULL; i++)
        printf ("%s %s\n", routes_at (i)->method, routes_at (i)->pattern);
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
  if (o->restore)
    return restore_run (
      &(const struct restore) { .state = o->state,
                                .file = o->restore,
                                .passphrase_file = o->passphrase_file,
                                .replace = o->replace });
  if (check_listeners (o) != 0)
    return EXIT_FAILURE;
  find_files (o);
  return -1;
}

/* A reader that sees the file sees all of it. */
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

/* The first login. */
static int
begin_setup (const struct options *o, struct auth *auth,
             const struct http *http, const char *setup)
{
  char url[80];
  unsigned i = 0;

  unlink (setup); /* an older weftd's */
  while (i + 1 < o->http.listeners_count && o->http.listeners[i].tls)
    i++;
  http_url (http, i, url);
  auth_setup_at (auth, setup, url);
  return o->setup || auth_setup_required (auth) || auth_in_doubt (auth)
           ? auth_setup_open (auth)
           : 0;
}

static int
announce (const struct options *o, const struct http *http)
{
  char url[80], urls[LISTENERS_MAX * 81] = "", pid[32];

  for (unsigned i = 0; i < o->http.listeners_count; i++) {
    http_url (http, i, url);
    if (i > 0)
      strcat (urls, "\n");
    strcat (urls, url);
  }
  snprintf (pid, sizeof pid, "%ld", (long) getpid ());
  if (write_file (o->pid_file, pid) == -1 ||
      write_file (o->port_file, urls) == -1)
    return -1;
  notify_ready ();
  for (char *end = urls; (end = strchr (end, '\n')) != NULL;)
    *end = ' ';
  log_line (CLUSTER_INFO, "version %s serves %s from %s", PACKAGE_VERSION, urls,
            o->state);
  return 0;
}

/* The administrator's and the host's names and addresses that the CA can't
 * sign.
 */
static void
warn_of_networks (const struct ca *ca, const struct ca_networks *networks,
                  const struct ca_names *own)
{
  if (networks->count > 0 && !ca_is_bound_to (ca, networks))
    log_line (CLUSTER_WARNING,
              "the cluster's CA is bound to %s networks than --ca-network "
              "says: weftctl ca rotate makes the next one, for those",
              ca_is_constrained (ca) ? "other" : "more");
  for (unsigned i = 0; networks->count == 0 && i < own->address_count; i++)
    if (!ca_permits (ca, own->address[i]))
      log_line (CLUSTER_WARNING,
                "nobody reaches weftd at %s, which is in no network of the "
                "cluster's CA: give --ca-network for each network of the "
                "cluster, then run weftctl ca rotate",
                own->address[i]);
}

static int
serve (const struct options *o, struct store *store)
{
  char why[1024], setup[4096];
  struct hub *hub = hub_new ();
  struct ca_networks first = o->networks;
  struct ca *ca;
  struct trust *trust;
  struct auth *auth;
  struct loop *loop = NULL;
  struct http *http = NULL;
  struct ca_names own;
  int r = -1;

  if (first.count == 0)
    ca_networks_usual (&first);
  ca = ca_open (o->state, &first, why, sizeof why);
  trust = ca ? trust_new (ca, o->state, &o->networks) : NULL;
  tls_names (&o->http, &own);
  auth = auth_new (o->no_login, trust, &own,
                   UINT64_C (24) * 3600 * o->certificate_days);
  audit_log_to (auth_audit_log (auth), o->audit_log);
  snprintf (setup, sizeof setup, "%s/setup-url", o->state);
  if (ca && tls_check (ca, &o->networks, &o->http, why, sizeof why) == 0) {
    warn_of_networks (ca, &o->networks, &own);
    loop = loop_new (store, hub, auth, why, sizeof why);
  }
  else
    store_close (store);
  if (loop)
    http = http_start (&o->http, loop, hub, trust, why, sizeof why);
  if (http == NULL)
    log_line (CLUSTER_ERROR, "%s", why);
  else {
    if (begin_setup (o, auth, http, setup) == 0 && announce (o, http) == 0)
      r = loop_run (loop);
    else
      loop_end (loop);
    notify_stopping ();
    http_stop (http);
    unlink (setup);
    if (o->pid_file)
      unlink (o->pid_file);
    if (o->port_file)
      unlink (o->port_file);
  }
  loop_free (loop);
  auth_free (auth);
  trust_free (trust);
  hub_free (hub);
  return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Memory that a flood needed goes back when it is over: by itself glibc gives
 * the many threads heaps of their own, takes larger and larger pieces out of
 * them, and keeps for each thread the freed memory (the "tcache", 20 KiB after
 * some TLS handshakes and ten times that at most). The last is set only by the
 * environment, at the start.
 */
static void
bound_memory (char **argv)
{
  char self[4096];
  ssize_t n = readlink ("/proc/self/exe", self, sizeof self - 1);

  if (n > 0 && getenv (TUNABLES) == NULL) {
    self[n] = '\0';
    setenv (TUNABLES, "glibc.malloc.tcache_count=0", 1);
    execv (self, argv); /* if it can't, weftd only uses more memory */
  }
  mallopt (M_ARENA_MAX, 1);
  mallopt (M_MMAP_THRESHOLD, MAPPED_BYTES);
  mallopt (M_TRIM_THRESHOLD, 2 * MAPPED_BYTES); /* glibc's own ratio */
}

int
main (int argc, char **argv)
{
  struct options options = { .certificate_days = CERTIFICATE_DAYS_USUAL };
  struct rlimit limit;
  char why[1024];
  struct store *store;
  mode_t mask;
  int r = parse_options (argc, argv, &options);

  if (r != -1)
    return r;
  setvbuf (stderr, NULL, _IOLBF, 0);
  bound_memory (argv);
  /* Each connection takes a descriptor. */
  if (getrlimit (RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit (RLIMIT_NOFILE, &limit);
  }
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
