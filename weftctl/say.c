/* say.c: the one line about what went wrong, and how this host is called. */

#include <config.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/strike.h"
#include "base/name.h"
#include "ctl.h"
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
  strike_controls (text);
  fprintf (stderr, "weftctl: %s\n", text);
  free (text);
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
