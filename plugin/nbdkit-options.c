/* nbdkit-options.c: parses nbdkit's own command line.
 *
 * The parser is getopt, as in nbdkit, with the same names, so that
 * --tls=require, --tls require and --tls-v all mean the same as there.  Unknown
 * options, as of a later nbdkit, are skipped.
 */

#include <config.h>

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "nbdkit-options.h"
#include "role.h"

struct options options = { .ip = true };
struct params params;

#define WORDS_MAX 4096
#define BYTES_MAX (1 << 20)

enum { OTHER = 256, TLS, CERTIFICATES, PSK, VERIFY_PEER, VSOCK };

static const char short_options[] = "46D:e:fg:i:nop:P:rst:u:U:vV";
static const struct option long_options[] = {
  { "debug", required_argument, NULL, OTHER },
  { "dump-config", no_argument, NULL, OTHER },
  { "dump-plugin", no_argument, NULL, OTHER },
  { "exit-with-parent", no_argument, NULL, OTHER },
  { "export", required_argument, NULL, OTHER },
  { "export-name", required_argument, NULL, OTHER },
  { "exportname", required_argument, NULL, OTHER },
  { "filter", required_argument, NULL, OTHER },
  { "foreground", no_argument, NULL, OTHER },
  { "group", required_argument, NULL, OTHER },
  { "help", no_argument, NULL, OTHER },
  { "ip-addr", required_argument, NULL, 'i' },
  { "ipaddr", required_argument, NULL, 'i' },
  { "ipv4-only", no_argument, NULL, OTHER },
  { "ipv6-only", no_argument, NULL, OTHER },
  { "log", required_argument, NULL, OTHER },
  { "long-options", no_argument, NULL, OTHER },
  { "mask-handshake", required_argument, NULL, OTHER },
  { "new-style", no_argument, NULL, OTHER },
  { "newstyle", no_argument, NULL, OTHER },
  { "no-fork", no_argument, NULL, OTHER },
  { "no-sr", no_argument, NULL, OTHER },
  { "old-style", no_argument, NULL, OTHER },
  { "oldstyle", no_argument, NULL, OTHER },
  { "pid-file", required_argument, NULL, OTHER },
  { "pidfile", required_argument, NULL, OTHER },
  { "port", required_argument, NULL, OTHER },
  { "read-only", no_argument, NULL, 'r' },
  { "readonly", no_argument, NULL, 'r' },
  { "run", required_argument, NULL, OTHER },
  { "selinux-label", required_argument, NULL, OTHER },
  { "short-options", no_argument, NULL, OTHER },
  { "single", no_argument, NULL, 's' },
  { "stdin", no_argument, NULL, 's' },
  { "swap", no_argument, NULL, OTHER },
  { "threads", required_argument, NULL, OTHER },
  { "tls", required_argument, NULL, TLS },
  { "tls-certificates", required_argument, NULL, CERTIFICATES },
  { "tls-psk", required_argument, NULL, PSK },
  { "tls-verify-peer", no_argument, NULL, VERIFY_PEER },
  { "unix", required_argument, NULL, 'U' },
  { "user", required_argument, NULL, OTHER },
  { "verbose", no_argument, NULL, OTHER },
  { "version", no_argument, NULL, OTHER },
  { "vsock", no_argument, NULL, VSOCK },
  { NULL },
};

/* The command line, in one piece that the caller frees; words[] point into it.
 * NULL: it can't be read.
 */
static char *
read_command_line (char *words[WORDS_MAX + 1], int *count)
{
  char *text = malloc (BYTES_MAX + 1);
  size_t bytes = 0;
  ssize_t n;
  int fd = open ("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

  *count = 0;
  while (text && fd != -1 && bytes < BYTES_MAX &&
         (n = read (fd, text + bytes, BYTES_MAX - bytes)) > 0)
    bytes += n;
  if (fd != -1)
    close (fd);
  if (bytes == 0) {
    free (text);
    return NULL;
  }
  text[bytes] = '\0';
  for (char *p = text; p < text + bytes && *count < WORDS_MAX;
       p += strlen (p) + 1)
    words[(*count)++] = p;
  words[*count] = NULL;
  return text;
}

int
options_read (void)
{
  static char *words[WORDS_MAX + 1];
  int count, option, saved_index = optind, saved_errors = opterr;
  char *text = read_command_line (words, &count), *path;

  if (text == NULL) {
    nbdkit_error ("/proc/self/cmdline: %m; mount /proc, in which nbdkit's "
                  "options are looked up");
    return -1;
  }
  optind = 0; /* from the start, says getopt(3) */
  opterr = 0;
  while ((option = getopt_long (count, words, short_options, long_options,
                                NULL)) != -1)
    switch (option) {
    case 'r':
      options.readonly = true;
      break;
    case 'i':
      snprintf (options.address, sizeof options.address, "%s", optarg);
      break;
    case TLS:
      options.tls_required = strcasecmp (optarg, "require") == 0 ||
                             strcasecmp (optarg, "required") == 0 ||
                             strcasecmp (optarg, "force") == 0;
      break;
    case CERTIFICATES:
      path = nbdkit_absolute_path (optarg);
      snprintf (options.certificates, sizeof options.certificates, "%s",
                path ? path : "");
      free (path);
      break;
    case PSK:
      options.psk = true;
      break;
    case VERIFY_PEER:
      options.verify_peer = true;
      break;
    case 'U':
    case 's':
      options.ip = false;
      break;
    case VSOCK:
      options.ip = false;
      options.vsock = true;
      break;
    }
  optind = saved_index;
  opterr = saved_errors;
  free (text);
  return 0;
}
