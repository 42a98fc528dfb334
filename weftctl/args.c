/* args.c: the arguments of the command line, and their values: numbers, times,
 * sizes, names.
 */

#include <config.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/name.h"
#include "ctl.h"

/* --- Asking for what was given ------------------------------------------- */

const char *
args_value (const struct args *args, const char *name)
{
  const char *value = NULL;

  for (size_t i = 0; i < args->count; i++)
    if (args->arg[i].name && strcmp (args->arg[i].name, name) == 0)
      value = args->arg[i].value;
  return value;
}

bool
args_switch (const struct args *args, const char *name)
{
  for (size_t i = 0; i < args->count; i++)
    if (args->arg[i].name && strcmp (args->arg[i].name, name) == 0)
      return true;
  return false;
}

const char *
args_plain (const struct args *args, unsigned n)
{
  for (size_t i = 0; i < args->count; i++)
    if (args->arg[i].name == NULL && n-- == 0)
      return args->arg[i].value;
  return NULL;
}

int
args_number (const struct args *args, const char *name, uint64_t min,
             uint64_t max, uint64_t *n)
{
  const char *value = args_value (args, name);
  uint64_t v = 0;
  const char *p = value;

  if (value == NULL)
    return EXIT_OK;
  for (; *p >= '0' && *p <= '9' && v <= max; p++)
    v = 10 * v + (uint64_t) (*p - '0');
  if (p == value || *p || v < min || v > max) {
    ctl_error ("--%s %s: must be a number from %llu to %llu", name, value,
               (unsigned long long) min, (unsigned long long) max);
    return EXIT_USAGE;
  }
  *n = v;
  return EXIT_OK;
}

int
args_time (const struct args *args, const char *name, uint64_t min,
           uint64_t max, uint64_t *seconds)
{
  static const struct {
    char letter;
    uint64_t seconds;
  } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
  const char *value = args_value (args, name), *p = value;
  uint64_t v = 0, unit = 1;

  if (value == NULL)
    return EXIT_OK;
  for (; *p >= '0' && *p <= '9' && v <= max; p++)
    v = 10 * v + (uint64_t) (*p - '0');
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (p > value && *p == units[i].letter && p[1] == '\0') {
      unit = units[i].seconds;
      p++;
    }
  if (p == value || *p || v > max / unit || v * unit < min) {
    ctl_error ("--%s %s: must be a time from %llu to %llu seconds, such as "
               "900, 15m, 6h or 30d",
               name, value, (unsigned long long) min, (unsigned long long) max);
    return EXIT_USAGE;
  }
  *seconds = v * unit;
  return EXIT_OK;
}

char *
ctl_escape_url (const char *text)
{
  char *escaped = malloc (3 * strlen (text) + 1), *p = escaped;

  for (const unsigned char *t = (const unsigned char *) text; p && *t; t++)
    p += sprintf (p, isalnum (*t) || strchr ("-._~", *t) ? "%c" : "%%%02X", *t);
  if (p)
    *p = '\0';
  return escaped;
}

/* --- Sizes and names ----------------------------------------------------- */

/* The shift of a unit letter, or -1; *p goes behind it. */
static int
size_unit (const char **p)
{
  static const char units[] = "KMGTPE";
  const char *u;
  int shift;

  if (**p == '\0')
    return 0;
  u = strchr (units, **p >= 'a' && **p <= 'z' ? **p - 32 : **p);
  if (u == NULL)
    return -1;
  shift = 10 * (int) (u - units + 1);
  ++*p;
  if ((*p)[0] == 'i' && (*p)[1] == 'B')
    *p += 2;
  return shift;
}

int
ctl_parse_size (const char *text, uint64_t *bytes)
{
  uint64_t whole = 0, part = 0, scale = 1, r;
  const char *p = text;
  int shift;

  if (*p < '0' || *p > '9')
    return -1;
  for (; *p >= '0' && *p <= '9'; p++)
    if (__builtin_mul_overflow (whole, (uint64_t) 10, &whole) ||
        __builtin_add_overflow (whole, (uint64_t) (*p - '0'), &whole))
      return -1;
  if (*p == '.') {
    if (*++p < '0' || *p > '9')
      return -1;
    /* Four digits are enough for what is whole bytes; more can't overflow
     * either as long as they are bounded.
     */
    for (; *p >= '0' && *p <= '9'; p++) {
      if (scale >= 10000000)
        return -1;
      part = 10 * part + (uint64_t) (*p - '0');
      scale *= 10;
    }
  }
  shift = size_unit (&p);
  if (shift == -1 || *p != '\0' || (shift && whole >> (64 - shift)))
    return -1;
  r = whole << shift;
  if (part) {
    unsigned __int128 x = (unsigned __int128) part << shift;

    if (x % scale || __builtin_add_overflow (r, (uint64_t) (x / scale), &r))
      return -1;
  }
  *bytes = r;
  return 0;
}

int
args_stripes (const struct args *args, uint64_t *groups, uint64_t *unit_bytes)
{
  const char *unit = args_value (args, "unit");
  int r;

  *groups = 1;
  *unit_bytes = UNIT_BYTES_DEFAULT;
  r = args_number (args, "groups", 1, ARRAY_GROUPS_MAX, groups);
  if (r == EXIT_OK && unit && ctl_parse_size (unit, unit_bytes) == -1) {
    ctl_error ("--unit %s: not a size; write 65536, 64K or 1M", unit);
    r = EXIT_USAGE;
  }
  return r;
}

int
ctl_check_name (const char *what, const char *name)
{
  if (name_valid (name))
    return EXIT_OK;
  ctl_error ("%s: not the name of %s; a name has 1 to %d characters out of "
             "a-z, 0-9 and -, the first no -",
             name, what, NAME_BYTES_MAX);
  return EXIT_USAGE;
}

int
ctl_path (const char *what, const char *name, const char *more,
          char path[CTL_PATH_BYTES])
{
  int r = ctl_check_name (what, name);

  if (r == EXIT_OK)
    snprintf (path, CTL_PATH_BYTES, "/api/v1/%ss/%s%s", strchr (what, ' ') + 1,
              name, more);
  return r;
}
