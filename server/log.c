/* log.c: see log.h. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "log.h"

void
log_line (enum cluster_severity severity, const char *fmt, ...)
{
  static const char *const words[] = { "", "warning: ", "error: " };
  char text[2048];
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (text, sizeof text, fmt, ap);
  va_end (ap);
  /* What came from outside must not make a line of its own. */
  for (char *p = text; *p; p++)
    if ((unsigned char) *p < 0x20 || *p == 0x7f)
      *p = ' ';
  fprintf (stderr, "weftd: %s%s\n", words[severity], text);
}
