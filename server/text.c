/* text.c: see text.h. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text.h"

static const char digits[] = "0123456789abcdef";

void
text_uuid_print (const uint8_t uuid[16], char text[37])
{
  for (unsigned i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      *text++ = '-';
    *text++ = digits[uuid[i] >> 4];
    *text++ = digits[uuid[i] & 15];
  }
  *text = '\0';
}

json_t *
text_uuid (const uint8_t uuid[16])
{
  char text[37];

  text_uuid_print (uuid, text);
  return json_string (text);
}

json_t *
text_uuid_or_null (const uint8_t uuid[16])
{
  static const uint8_t zero[16];

  return memcmp (uuid, zero, 16) == 0 ? json_null () : text_uuid (uuid);
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
  for (size_t i = 0; i < count; i++) {
    text[2 * i] = digits[bytes[i] >> 4];
    text[2 * i + 1] = digits[bytes[i] & 15];
  }
  text[2 * count] = '\0';
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
  copy = strdup (text);
  if (copy == NULL)
    abort ();
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
  return text[0] ? text_string (text) : json_null ();
}

json_t *
text_rate (double x)
{
  return json_real ((double) (int64_t) (x * 1000 + 0.5) / 1000);
}
