/* output.c: tables, sizes, ages, questions.  See output.h. */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "common/characters.h"
#include "common/strike.h"
#include "output.h"

static bool colors;

void
output_init (bool no_color)
{
  const char *unwanted = getenv ("NO_COLOR"), *term = getenv ("TERM");

  colors = !no_color && !(unwanted && *unwanted) && isatty (STDOUT_FILENO) &&
           term && strcmp (term, "dumb") != 0;
}

/* Words of states, and how they look. */
static const struct {
  const char *word, *color;
} state_colors[] = {
  { "ok", "\033[32m" },         { "ready", "\033[32m" },
  { "in-sync", "\033[32m" },    { "serving", "\033[32m" },
  { "alive", "\033[32m" },      { "warning", "\033[33m" },
  { "degraded", "\033[33m" },   { "creating", "\033[33m" },
  { "joining", "\033[33m" },    { "deleting", "\033[33m" },
  { "rebuilding", "\033[33m" }, { "error", "\033[31m" },
  { "failed", "\033[31m" },     { "out", "\033[31m" },
  { "silent", "\033[31m" },     { "never-seen", "\033[31m" },
};

const char *
output_color_start (const char *state)
{
  if (colors)
    for (size_t i = 0; i < sizeof state_colors / sizeof state_colors[0]; i++)
      if (strcmp (state_colors[i].word, state) == 0)
        return state_colors[i].color;
  return "";
}

const char *
output_color_end (const char *state)
{
  return *output_color_start (state) ? "\033[0m" : "";
}

/* --- Tables -------------------------------------------------------------- */

struct table {
  size_t columns, cells, room;
  char *flags; /* per column: '>', '!' or ' ' */
  char **cell; /* row by row, the headings first */
};

static void *
need (void *p)
{
  if (p == NULL) {
    fprintf (stderr, "weftctl: out of memory\n");
    exit (1);
  }
  return p;
}

static void
table_put (struct table *t, char *text)
{
  strike_controls (text);
  if (t->cells == t->room) {
    t->room = t->room ? 2 * t->room : 64;
    t->cell = need (reallocarray (t->cell, t->room, sizeof *t->cell));
  }
  t->cell[t->cells++] = text;
}

struct table *
output_table_new (const char *headings)
{
  struct table *t = need (calloc (1, sizeof *t));
  const char *p = headings;

  t->flags = need (calloc (1, strlen (headings) + 2));
  for (;;) {
    size_t n;

    t->flags[t->columns++] = *p == '>' || *p == '!' ? *p : ' ';
    if (*p == '>' || *p == '!')
      p++;
    n = strcspn (p, "|");
    table_put (t, need (strndup (p, n)));
    if (p[n] == '\0')
      return t;
    p += n + 1;
  }
}

void
output_table_cell (struct table *t, const char *format, ...)
{
  char *text;
  va_list ap;

  va_start (ap, format);
  if (vasprintf (&text, format, ap) == -1)
    text = NULL;
  va_end (ap);
  table_put (t, need (text));
}

static void
table_part (struct table *t, const json_t *session)
{
  const json_t *part = json_object_get (session, "part");
  char offset[SIZE_TEXT_BYTES], length[SIZE_TEXT_BYTES];

  if (output_json_yes (session, "leases"))
    output_table_cell (t, "leases");
  else if (json_is_object (part))
    output_table_cell (
      t, "%s+%s", output_size (output_json_number (part, "offset"), offset),
      output_size (output_json_number (part, "length"), length));
  else
    output_table_cell (t, "-");
}

static void
table_writers (struct table *t, const json_t *sessions)
{
  char text[512] = "";
  json_t *s;
  size_t i;

  json_array_foreach (sessions, i, s)
    if (strcmp (output_json_text (s, "mode"), "ro") != 0)
      output_text_add (text, sizeof text, "%s%s", text[0] ? ", " : "",
                       output_json_text (s, "node"));
  output_table_cell (t, "%s", text[0] ? text : "-");
}

void
output_table_cells (struct table *t, const json_t *object, const char *keys)
{
  char *copy = need (strdup (keys)), *save, text[SIZE_TEXT_BYTES];

  for (char *key = strtok_r (copy, "|", &save); key;
       key = strtok_r (NULL, "|", &save)) {
    char *kind = strchr (key, ':'), *inner = strchr (key, '.');
    const json_t *o = object;
    uint64_t n;

    if (kind)
      *kind++ = '\0';
    if (inner) {
      *inner++ = '\0';
      o = json_object_get (o, key);
      key = inner;
    }
    n = output_json_number (o, key);
    if (kind == NULL)
      output_table_cell (t, "%s", output_json_text (o, key));
    else if (strcmp (kind, "size") == 0)
      output_table_cell (t, "%s", output_size (n, text));
    else if (strcmp (kind, "yes") == 0)
      output_table_cell (t, "%s", output_json_yes (o, key) ? "yes" : "no");
    else if (strcmp (kind, "rate") == 0)
      output_table_cell (t, "%s", output_rate (n, text));
    else if (strcmp (kind, "age") == 0)
      output_table_cell (t, "%s", output_age (n, text));
    else if (strcmp (kind, "count") == 0)
      output_table_cell (t, "%zu", json_array_size (json_object_get (o, key)));
    else if (strcmp (kind, "part") == 0)
      table_part (t, o);
    else if (strcmp (kind, "writers") == 0)
      table_writers (t, json_object_get (o, key));
    else
      output_table_cell (t, "%" PRIu64, n);
  }
  free (copy);
}

void
output_table_print (struct table *t, unsigned indent)
{
  size_t *widths = need (calloc (t->columns, sizeof *widths));

  for (size_t i = 0; i < t->cells; i++) {
    size_t w = characters_count (t->cell[i]);

    if (w > widths[i % t->columns])
      widths[i % t->columns] = w;
  }
  for (size_t i = 0; i < t->cells; i++) {
    size_t c = i % t->columns;
    bool last = c + 1 == t->columns;
    bool state = i >= t->columns && t->flags[c] == '!';
    const char *text = t->cell[i];
    int pad = (int) (widths[c] - characters_count (text));

    if (c == 0)
      printf ("%*s", (int) indent, "");
    if (t->flags[c] == '>')
      printf ("%*s%s%s", pad, "", text, last ? "" : "  ");
    else
      printf ("%s%s%s%*s", state ? output_color_start (text) : "", text,
              state ? output_color_end (text) : "", last ? 0 : pad + 2, "");
    if (last)
      putchar ('\n');
    free (t->cell[i]);
  }
  free (t->cell);
  free (t->flags);
  free (t);
  free (widths);
}

void
output_table_of (const json_t *list, const char *headings, const char *keys,
                 void (*row) (struct table *t, const json_t *item),
                 unsigned indent)
{
  struct table *t = output_table_new (headings);
  json_t *item;
  size_t i;

  json_array_foreach (list, i, item) {
    output_table_cells (t, item, keys);
    if (row)
      row (t, item);
  }
  output_table_print (t, indent);
}

/* --- Texts, sizes and ages ----------------------------------------------- */

void
output_text_add (char *text, size_t size, const char *format, ...)
{
  size_t used = strlen (text);
  va_list ap;

  va_start (ap, format);
  vsnprintf (text + used, size - used, format, ap);
  va_end (ap);
}

int
output_permille_of (uint64_t done, uint64_t total)
{
  return total == 0 || done > total
           ? -1
           : (int) ((double) done * 1000 / (double) total);
}

const char *
output_size (uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
  static const char units[] = " KMGTPE";
  unsigned u = 0;
  uint64_t whole, tenth;

  while (u < 6 && bytes >> (10 * u) >= 1024)
    u++;
  whole = bytes >> (10 * u);
  tenth = u ? ((bytes >> (10 * (u - 1))) & 1023) * 10 / 1024 : 0;
  if (u == 0)
    snprintf (text, SIZE_TEXT_BYTES, "%" PRIu64, bytes);
  else if (tenth == 0)
    snprintf (text, SIZE_TEXT_BYTES, "%" PRIu64 "%c", whole, units[u]);
  else
    snprintf (text, SIZE_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 "%c", whole, tenth,
              units[u]);
  return text;
}

const char *
output_size_exact (uint64_t bytes, char text[SIZE_TEXT_EXACT_BYTES])
{
  char s[SIZE_TEXT_BYTES];

  output_size (bytes, s);
  if (bytes < 1024)
    snprintf (text, SIZE_TEXT_EXACT_BYTES, "%s", s);
  else
    snprintf (text, SIZE_TEXT_EXACT_BYTES, "%s (%" PRIu64 " bytes)", s, bytes);
  return text;
}

const char *
output_rate (uint64_t rate, char text[SIZE_TEXT_BYTES])
{
  if (rate == 0)
    return strcpy (text, "-");
  output_size (rate, text);
  output_text_add (text, SIZE_TEXT_BYTES, "/s");
  return text;
}

const char *
output_age (uint64_t ms, char text[AGE_TEXT_BYTES])
{
  uint64_t s = ms / 1000;

  if (s < 10)
    snprintf (text, AGE_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " s", s,
              ms / 100 % 10);
  else if (s < 120)
    snprintf (text, AGE_TEXT_BYTES, "%" PRIu64 " s", s);
  else if (s < 7200)
    snprintf (text, AGE_TEXT_BYTES, "%" PRIu64 " min", s / 60);
  else if (s < 172800)
    snprintf (text, AGE_TEXT_BYTES, "%" PRIu64 " h", s / 3600);
  else
    snprintf (text, AGE_TEXT_BYTES, "%" PRIu64 " d", s / 86400);
  return text;
}

/* --- JSON ---------------------------------------------------------------- */

const char *
output_json_shown (json_t *string)
{
  const char *text = json_string_value (string);
  char *clean;

  if (text == NULL || *text == '\0')
    return "-";
  clean = need (strdup (text));
  strike_controls (clean);
  if (strcmp (clean, text) != 0)
    json_string_set_nocheck (string, clean);
  free (clean);
  return json_string_value (string);
}

const char *
output_json_text (const json_t *object, const char *key)
{
  return output_json_shown (json_object_get (object, key));
}

uint64_t
output_json_number (const json_t *object, const char *key)
{
  json_int_t n = json_integer_value (json_object_get (object, key));

  return n > 0 ? (uint64_t) n : 0;
}

bool
output_json_yes (const json_t *object, const char *key)
{
  return json_is_true (json_object_get (object, key));
}

bool
output_json_has (const json_t *object, const char *key)
{
  return json_is_string (json_object_get (object, key));
}

void
output_json (const json_t *json)
{
  output_json_as (json, JSON_INDENT (2));
}

void
output_json_as (const json_t *json, size_t flags)
{
  char *text = need (
    json_dumps (json, flags | JSON_ENCODE_ANY | JSON_ENSURE_ASCII));

  /* Of ASCII, jansson escapes all controls but this one. */
  for (const char *p = text; *p; p++)
    if (*p == 0x7f)
      fputs ("\\u007F", stdout);
    else
      putchar (*p);
  putchar ('\n');
  free (text);
}

void
output_lines (const json_t *lines, bool to_stderr)
{
  FILE *f = to_stderr ? stderr : stdout;
  json_t *line;
  size_t i;

  json_array_foreach (lines, i, line) {
    fprintf (f, "  %s\n", output_json_shown (line));
  }
}

/* --- Questions ----------------------------------------------------------- */

static int
ask (const char *question, char *line, int size)
{
  if (!isatty (STDIN_FILENO))
    return -1;
  fflush (stdout);
  fprintf (stderr, "%s ", question);
  if (fgets (line, size, stdin) == NULL)
    line[0] = '\0';
  line[strcspn (line, "\r\n")] = '\0';
  return 0;
}

int
output_ask_yes (const char *question)
{
  char line[80];

  if (ask (question, line, sizeof line) == -1)
    return -1;
  return strcmp (line, "y") == 0 || strcmp (line, "yes") == 0;
}

int
output_ask_typed (const char *question, const char *expected)
{
  char line[256];

  if (ask (question, line, sizeof line) == -1)
    return -1;
  return strcmp (line, expected) == 0;
}

char *
output_ask_word (const char *question, bool secret)
{
  struct termios shown, hidden;
  char line[1024], *word;
  bool hide = secret && tcgetattr (STDIN_FILENO, &shown) == 0;
  int r;

  if (hide) {
    hidden = shown;
    hidden.c_lflag &= ~(tcflag_t) ECHO;
    tcsetattr (STDIN_FILENO, TCSAFLUSH, &hidden);
  }
  r = ask (question, line, sizeof line);
  if (hide) {
    tcsetattr (STDIN_FILENO, TCSAFLUSH, &shown);
    fputc ('\n', stderr);
  }
  word = r == -1 ? NULL : need (strdup (line));
  explicit_bzero (line, sizeof line);
  return word;
}
