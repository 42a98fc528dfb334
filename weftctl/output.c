/* output.c: tables, sizes, ages, questions.  See output.h. */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

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
color_start (const char *state)
{
  if (colors)
    for (size_t i = 0; i < sizeof state_colors / sizeof state_colors[0]; i++)
      if (strcmp (state_colors[i].word, state) == 0)
        return state_colors[i].color;
  return "";
}

const char *
color_end (const char *state)
{
  return *color_start (state) ? "\033[0m" : "";
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

void
text_clean (char *text)
{
  for (unsigned char *p = (unsigned char *) text; *p; p++)
    if (*p < ' ' || *p == 0x7f)
      *p = '?';
    /* C1 controls are two bytes in UTF-8. */
    else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
      p[0] = p[1] = '?';
}

static void
table_put (struct table *t, char *text)
{
  text_clean (text);
  if (t->cells == t->room) {
    t->room = t->room ? 2 * t->room : 64;
    t->cell = need (reallocarray (t->cell, t->room, sizeof *t->cell));
  }
  t->cell[t->cells++] = text;
}

struct table *
table_new (const char *headings)
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
table_cell (struct table *t, const char *format, ...)
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

  if (json_yes (session, "leases"))
    table_cell (t, "leases");
  else if (json_is_object (part))
    table_cell (t, "%s+%s", size_text (json_number (part, "offset"), offset),
                size_text (json_number (part, "length"), length));
  else
    table_cell (t, "-");
}

static void
table_writers (struct table *t, const json_t *sessions)
{
  char text[512] = "";
  json_t *s;
  size_t i;

  json_array_foreach (sessions, i, s)
    if (strcmp (json_text (s, "mode"), "ro") != 0)
      text_add (text, sizeof text, "%s%s", text[0] ? ", " : "",
                json_text (s, "node"));
  table_cell (t, "%s", text[0] ? text : "-");
}

void
table_cells (struct table *t, const json_t *object, const char *keys)
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
    n = json_number (o, key);
    if (kind == NULL)
      table_cell (t, "%s", json_text (o, key));
    else if (strcmp (kind, "size") == 0)
      table_cell (t, "%s", size_text (n, text));
    else if (strcmp (kind, "rate") == 0)
      table_cell (t, "%s", rate_text (n, text));
    else if (strcmp (kind, "age") == 0)
      table_cell (t, "%s", age_text (n, text));
    else if (strcmp (kind, "count") == 0)
      table_cell (t, "%zu", json_array_size (json_object_get (o, key)));
    else if (strcmp (kind, "part") == 0)
      table_part (t, o);
    else if (strcmp (kind, "writers") == 0)
      table_writers (t, json_object_get (o, key));
    else
      table_cell (t, "%" PRIu64, n);
  }
  free (copy);
}

/* Columns that the text takes on a terminal: its UTF-8 characters. */
static size_t
text_width (const char *text)
{
  size_t n = 0;

  for (; *text; text++)
    n += ((unsigned char) *text & 0xc0) != 0x80;
  return n;
}

void
table_print (struct table *t, unsigned indent)
{
  size_t *widths = need (calloc (t->columns, sizeof *widths));

  for (size_t i = 0; i < t->cells; i++) {
    size_t w = text_width (t->cell[i]);

    if (w > widths[i % t->columns])
      widths[i % t->columns] = w;
  }
  for (size_t i = 0; i < t->cells; i++) {
    size_t c = i % t->columns;
    bool last = c + 1 == t->columns;
    bool state = i >= t->columns && t->flags[c] == '!';
    const char *text = t->cell[i];
    int pad = (int) (widths[c] - text_width (text));

    if (c == 0)
      printf ("%*s", (int) indent, "");
    if (t->flags[c] == '>')
      printf ("%*s%s%s", pad, "", text, last ? "" : "  ");
    else
      printf ("%s%s%s%*s", state ? color_start (text) : "", text,
              state ? color_end (text) : "", last ? 0 : pad + 2, "");
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
table_of (const json_t *list, const char *headings, const char *keys,
          void (*row) (struct table *t, const json_t *item), unsigned indent)
{
  struct table *t = table_new (headings);
  json_t *item;
  size_t i;

  json_array_foreach (list, i, item) {
    table_cells (t, item, keys);
    if (row)
      row (t, item);
  }
  table_print (t, indent);
}

/* --- Texts, sizes and ages ----------------------------------------------- */

void
text_add (char *text, size_t size, const char *format, ...)
{
  size_t used = strlen (text);
  va_list ap;

  va_start (ap, format);
  vsnprintf (text + used, size - used, format, ap);
  va_end (ap);
}

int
permille_of (uint64_t done, uint64_t total)
{
  return total == 0 || done > total
           ? -1
           : (int) ((double) done * 1000 / (double) total);
}

const char *
size_text (uint64_t bytes, char text[SIZE_TEXT_BYTES])
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
size_text_exact (uint64_t bytes, char text[SIZE_TEXT_EXACT_BYTES])
{
  char s[SIZE_TEXT_BYTES];

  size_text (bytes, s);
  if (bytes < 1024)
    snprintf (text, SIZE_TEXT_EXACT_BYTES, "%s", s);
  else
    snprintf (text, SIZE_TEXT_EXACT_BYTES, "%s (%" PRIu64 " bytes)", s, bytes);
  return text;
}

const char *
rate_text (uint64_t rate, char text[SIZE_TEXT_BYTES])
{
  if (rate == 0)
    return strcpy (text, "-");
  size_text (rate, text);
  text_add (text, SIZE_TEXT_BYTES, "/s");
  return text;
}

const char *
age_text (uint64_t ms, char text[AGE_TEXT_BYTES])
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
json_text (const json_t *object, const char *key)
{
  const char *text = json_string_value (json_object_get (object, key));

  return text && *text ? text : "-";
}

uint64_t
json_number (const json_t *object, const char *key)
{
  json_int_t n = json_integer_value (json_object_get (object, key));

  return n > 0 ? (uint64_t) n : 0;
}

bool
json_yes (const json_t *object, const char *key)
{
  return json_is_true (json_object_get (object, key));
}

bool
json_has (const json_t *object, const char *key)
{
  return json_is_string (json_object_get (object, key));
}

void
output_json (const json_t *json)
{
  json_dumpf (json, stdout, JSON_INDENT (2) | JSON_ENCODE_ANY);
  putchar ('\n');
}

void
output_lines (const json_t *lines, bool to_stderr)
{
  FILE *f = to_stderr ? stderr : stdout;
  json_t *line;
  size_t i;

  json_array_foreach (lines, i, line) {
    char *text = need (
      strdup (json_string_value (line) ? json_string_value (line) : ""));

    text_clean (text);
    fprintf (f, "  %s\n", text);
    free (text);
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
ask_yes (const char *question)
{
  char line[80];

  if (ask (question, line, sizeof line) == -1)
    return -1;
  return strcmp (line, "y") == 0 || strcmp (line, "yes") == 0;
}

int
ask_typed (const char *question, const char *expected)
{
  char line[256];

  if (ask (question, line, sizeof line) == -1)
    return -1;
  return strcmp (line, expected) == 0;
}

char *
ask_word (const char *question, bool secret)
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
