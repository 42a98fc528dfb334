/* weftctl.c: main, and the little that every command uses.
 *
 * Follow a command: main -> options_parse -> the command's function in
 * cmd-NOUN.c -> ctl_call (call.c) -> common/admin.c.
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

#include "common/admin.h"
#include "ctl.h"
#include "base/name.h"
#include "output.h"

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
  if (r == EXIT_OK && command)
    r = config_load (&ctl);
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
