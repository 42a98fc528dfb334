/* weftctl.c: main.
 *
 * Follow a command: main -> options_parse -> the command's function in
 * cmd-NOUN.c -> ctl_call (call.c) -> common/admin.c.
 */

#include <config.h>

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/admin.h"
#include "ctl.h"
#include "output.h"

/* losetup, modprobe and nbd-client live in directories that an ordinary
 * user's PATH leaves out.
 */
static void
extend_path (void)
{
  const char *path = getenv ("PATH");
  char *longer;

  if (asprintf (&longer, "%s%s/usr/sbin:/sbin:/usr/bin:/bin", path ? path : "",
                path && *path ? ":" : "") == -1)
    return;
  setenv ("PATH", longer, 1);
  free (longer);
}

int
main (int argc, char **argv)
{
  struct ctl ctl = { .commands = commands };
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
    ctl_error ("standard output: %s; the output is incomplete",
               strerror (errno));
    return r == EXIT_OK ? EXIT_FAILED : r;
  }
  return r;
}
