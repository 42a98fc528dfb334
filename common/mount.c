/* mount.c: see mount.h. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mount.h"

bool
mount_find (const char *device, char *text, size_t size)
{
  FILE *f = fopen ("/proc/self/mountinfo", "re");
  char *line = NULL;
  size_t room = 0, n = strlen (device);
  bool found = false;

  while (f && !found && getline (&line, &room, f) > 0) {
    char *source = strstr (line, " - "), *point = line;

    /* A line ends in "- TYPE SOURCE OPTIONS"; its fifth word is the mount point. */
    source = source ? strchr (source + 3, ' ') : NULL;
    if (source == NULL || strncmp (++source, device, n) != 0 ||
        (source[n] != ' ' && source[n] != 'p'))
      continue;
    for (unsigned i = 0; i < 4 && point; i++)
      point = strchr (point, ' ') ? strchr (point, ' ') + 1 : NULL;
    if (point == NULL)
      continue;
    found = true;
    snprintf (text, size, "%.*s is still mounted on %.*s",
              (int) strcspn (source, " "), source, (int) strcspn (point, " "),
              point);
  }
  free (line);
  if (f)
    fclose (f);
  return found;
}
