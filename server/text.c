/* text.c: see text.h. */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alloc.h"
#include "base/bytes.h"
#include "format/format.h"
#include "text.h"

bool
text_refuse (struct refusal *r, int status, const char *field, const char *code,
             const char *fmt, ...)
{
  va_list ap;

  r->status = status;
  snprintf (r->field, sizeof r->field, "%s", field ? field : "");
  r->code = code;
  va_start (ap, fmt);
  vsnprintf (r->why, sizeof r->why, fmt, ap);
  va_end (ap);
  return false;
}

void
text_hex_print (const uint8_t *bytes, size_t count, char *text)
{
  *put_hex (text, bytes, count) = '\0';
}

json_t *
text_uuid (const uint8_t uuid[16])
{
  char text[FORMAT_UUID_TEXT_BYTES];

  format_uuid (uuid, text);
  return json_string (text);
}

json_t *
text_uuid_or_null (const uint8_t uuid[16])
{
  return format_uuid_zero (uuid) ? json_null () : text_uuid (uuid);
}

json_t *
text_number (uint64_t n)
{
  return json_integer (n > INT64_MAX ? INT64_MAX : (json_int_t) n);
}

json_t *
text_hex (const uint8_t *bytes, size_t count)
{
  char text[129];

  if (count > 64)
    return NULL;
  text_hex_print (bytes, count, text);
  return json_string (text);
}

json_t *
text_session (uint64_t id)
{
  char text[17];

  snprintf (text, sizeof text, "%016" PRIx64, id);
  return json_string (text);
}

json_t *
text_time (uint64_t wall_ms)
{
  char text[80], second[40];
  time_t t = (time_t) (wall_ms / 1000);
  struct tm tm;

  if (wall_ms == 0 || gmtime_r (&t, &tm) == NULL)
    return json_null ();
  strftime (second, sizeof second, "%Y-%m-%dT%H:%M:%S", &tm);
  snprintf (text, sizeof text, "%s.%03uZ", second, (unsigned) (wall_ms % 1000));
  return json_string (text);
}

json_t *
text_string (const char *text)
{
  json_t *json = json_string (text);
  char *copy;

  if (json)
    return json;
  copy = alloc_copy (text);
  for (char *p = copy; *p; p++)
    if ((unsigned char) *p >= 0x80)
      *p = '?';
  json = json_string (copy);
  free (copy);
  return json;
}

json_t *
text_or_null (const char *text)
{
  return text && text[0] ? text_string (text) : json_null ();
}

json_t *
text_rate (double x)
{
  if (x <
      1e12) /* a larger number has no thousandths to round, and does not fit */
    x = (double) (int64_t) (x * 1000 + 0.5) / 1000;
  return json_real (x);
}
