/* started.c: see started.h. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "started.h"

bool
started_at (pid_t pid, uint64_t *start, bool *ended)
{
  char path[64], text[1024], *p;
  FILE *f;
  size_t n;

  snprintf (path, sizeof path, "/proc/%d/stat", (int) pid);
  f = fopen (path, "re");
  if (f == NULL)
    return false;
  n = fread (text, 1, sizeof text - 1, f);
  fclose (f);
  text[n] = '\0';
  /* Behind the program's name, which may hold anything, in parentheses, come its
   * state, field 3, and so on; the time of start is field 22.
   */
  p = strrchr (text, ')');
  if (p == NULL || p[1] != ' ')
    return false;
  *ended = p[2] == 'Z' || p[2] == 'X';
  for (int field = 2; p && field < 22; field++)
    p = strchr (p + 1, ' ');
  return p && sscanf (p, "%" SCNu64, start) == 1;
}
