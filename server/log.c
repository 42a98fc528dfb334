/* log.c: see log.h. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "common/strike.h"
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
  /* Text from outside must not make a line of its own, nor control a terminal.
   */
  strike_controls (text);
  fprintf (stderr, "weftd: %s%s\n", words[severity], text);
}
