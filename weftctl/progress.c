/* progress.c: see progress.h. */

#include <config.h>

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/strike.h"
#include "ctl.h"
#include "output.h"
#include "progress.h"

#define BAR_CELLS 30
#define LINE_MS 5000
#define COLUMNS_DEFAULT 80

void
progress_begin (struct progress *p, bool quiet)
{
  *p = (struct progress) { .quiet = quiet,
                           .terminal = isatty (STDOUT_FILENO) == 1 };
}

static void
show_on_terminal (struct progress *p, int permille, char *text)
{
  char bar[BAR_CELLS + 4] = "";
  size_t room = COLUMNS_DEFAULT - 1, used;
  struct winsize size;

  if (ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    room = size.ws_col - 1u;
  if (permille >= 0) {
    bar[0] = '[';
    for (int i = 0; i < BAR_CELLS; i++)
      bar[i + 1] = i < permille * BAR_CELLS / 1000 ? '#' : '.';
    strcpy (bar + BAR_CELLS + 1, "] ");
  }
  /* A line that is wider than the terminal could not be taken back. */
  used = strlen (bar);
  printf ("\r\033[K%s%.*s", bar, (int) (room > used ? room - used : 0), text);
  fflush (stdout);
  p->shown = true;
}

void
progress_show (struct progress *p, const char *subject, int permille,
               const char *about, const char *text)
{
  char clean[700];

  if (p->quiet)
    return;
  snprintf (clean, sizeof clean, "%s", text);
  strike_controls (clean);
  if (p->terminal) {
    show_on_terminal (p, permille, clean);
    return;
  }
  if (clock_ms () < p->next_line_ms &&
      strncmp (about, p->about, sizeof p->about - 1) == 0)
    return;
  p->next_line_ms = clock_ms () + LINE_MS;
  snprintf (p->about, sizeof p->about, "%s", about);
  printf ("%s: %s\n", subject, clean);
  fflush (stdout);
}

void
progress_end (struct progress *p)
{
  if (p->shown)
    printf ("\r\033[K");
  p->shown = false;
}
