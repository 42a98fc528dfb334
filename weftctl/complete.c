/* complete.c: the shell's completion (completion/weftctl): prints the words
 * that fit at the cursor.  `weftctl complete -- WORD...` gets the words behind
 * `weftctl`, the last one as far as it is typed.
 *
 * The help's name for an argument or an option's value says what fits there:
 * for ARRAY, weftd is asked for the names of arrays.  A lone "/" stands for
 * files, which the shell completes itself.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "base/name.h"
#include "output.h"

#define TIMEOUT_MS 2000
#define KIND_BYTES 64

struct complete {
  struct ctl *ctl;
  const char *typed; /* the beginning of the word */
  const struct command *command;
  const char *noun, *first;  /* the first plain argument */
  const struct option *open; /* an option that wants its value */
  unsigned plain;            /* arguments before this one */
};

/* A word goes into the command line of an administrator, who presses Enter, and
 * a disk's path is chosen by its node: so only plain words that no shell
 * interprets, and that no program takes for an option.
 */
static bool
is_plain (const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+,@%";

  return word[0] != '\0' && word[strspn (word, plain)] == '\0';
}

static void
offer_option (const struct complete *c, const char *word)
{
  if (strncmp (word, c->typed, strlen (c->typed)) == 0)
    printf ("%s\n", word);
}

static void
offer (const struct complete *c, const char *word)
{
  if (word && is_plain (word) && word[0] != '-')
    offer_option (c, word);
}

static void
offer_words (const struct complete *c, const char *words)
{
  char *copy = strdup (words), *save, *word;

  for (word = copy ? strtok_r (copy, " ,", &save) : NULL; word;
       word = strtok_r (NULL, " ,", &save))
    offer (c, word);
  free (copy);
}

/* --- Live names ---------------------------------------------------------- */

static const struct {
  const char *kind, *path, *list, *key;
} lists[] = {
  { "ARRAY", "/api/v1/arrays", "arrays", "name" },
  { "NODE", "/api/v1/nodes", "nodes", "name" },
  { "DISK", "/api/v1/disks", "disks", "uuid" },
  { "SESSION", "/api/v1/sessions", "sessions", "session" },
  { "JOB", "/api/v1/jobs", "jobs", "id" },
  { "USER", "/api/v1/users", "users", "name" },
  { "TOKEN", "/api/v1/tokens", "tokens", "name" },
  { "ID", "/api/v1/node-tokens", "node_tokens", "id" },
  { "ARRAY-UUID", "/api/v1/imports", "imports", "array" },
};

static void
offer_members (const struct complete *c)
{
  char position[24];
  json_t *array;
  size_t n;

  if (c->first == NULL || !name_valid (c->first) ||
      ctl_get (c->ctl, "an array", c->first, "", &array) != EXIT_OK)
    return;
  n = json_array_size (json_object_get (array, "members"));
  for (size_t i = 0; i < n; i++) {
    snprintf (position, sizeof position, "%zu", i);
    offer (c, position);
  }
  json_decref (array);
}

/* The names of all pools, or of their volumes. */
static void
offer_pools (const struct complete *c, bool volumes)
{
  json_t *reply, *array, *list, *v;
  char name[2 * NAME_BYTES_MAX + 2];
  size_t i, k;

  if (ctl_call (c->ctl, "GET", "/api/v1/arrays", NULL, &reply) != EXIT_OK)
    return;
  json_array_foreach (json_object_get (reply, "arrays"), i, array) {
    const char *pool = output_json_text (array, "name");

    if (!json_is_object (json_object_get (array, "pool")))
      continue;
    if (!volumes)
      offer (c, pool);
    else if (ctl_get (c->ctl, "an array", pool, "/volumes", &list) == EXIT_OK) {
      json_array_foreach (json_object_get (list, "volumes"), k, v) {
        snprintf (name, sizeof name, "%s/%s", pool,
                  output_json_text (v, "name"));
        offer (c, name);
      }
      json_decref (list);
    }
  }
  json_decref (reply);
}

static void
offer_live (const struct complete *c, const char *kind)
{
  json_t *reply, *v;
  char *place;
  size_t k;

  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    if (strcmp (lists[i].kind, kind) != 0 ||
        ctl_call (c->ctl, "GET", lists[i].path, NULL, &reply) != EXIT_OK)
      continue;
    json_array_foreach (json_object_get (reply, lists[i].list), k, v) {
      offer (c, json_string_value (json_object_get (v, lists[i].key)));
      /* A disk has another name: NODE:PATH. */
      if (strcmp (kind, "DISK") != 0 ||
          asprintf (&place, "%s:%s", output_json_text (v, "node"),
                    output_json_text (v, "path")) == -1)
        continue;
      offer (c, place);
      free (place);
    }
    json_decref (reply);
  }
}

/* --- Kinds --------------------------------------------------------------- */

static const struct {
  const char *kind, *words;
} fixed[] = {
  { "LAYOUT", LAYOUT_NAMES },
  { "PROTOCOL", "async-client sync-client" },
  { "ROLE", "viewer admin" },
  { "SEVERITY", "info warning error" },
};

static void
offer_kind (const struct complete *c, const char *kind)
{
  if (strcmp (kind, "PATH") == 0 || strcmp (kind, "FILE") == 0 ||
      strcmp (kind, "DIR") == 0)
    printf ("/\n");
  else if (strcmp (kind, "MEMBER") == 0)
    offer_members (c);
  else if (strcmp (kind, "POOL") == 0 || strcmp (kind, "VOLUME") == 0)
    offer_pools (c, kind[0] == 'V');
  else if (strcmp (kind, "STATE") == 0)
    offer_words (c, strcmp (c->command->verb, "array") == 0
                      ? "ready in-sync gone"
                      : "alive silent drained");
  else if (kind[0] >= 'a' && kind[0] <= 'z')
    offer (c, kind);
  else
    offer_live (c, kind);
  for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
    if (strcmp (fixed[i].kind, kind) == 0)
      offer_words (c, fixed[i].words);
}

/* Of "on|off NODE" the n-th word, of "PATH... [--force]" the first again and
 * again: offer all that it may be.
 */
static void
offer_argument (const struct complete *c)
{
  char *copy = strdup (c->command->arguments), *save, *saved, *word, *kind;
  char wanted[KIND_BYTES] = "";
  unsigned n = 0;

  for (word = copy ? strtok_r (copy, " ", &save) : NULL; word;
       word = strtok_r (NULL, " ", &save)) {
    bool again = strstr (word, "...") != NULL;

    word += strspn (word, "[");
    if (word[0] == '-' || strncmp (word, "options", 7) == 0)
      break;
    word[strcspn (word, "].")] = '\0';
    if (n++ == c->plain || again)
      snprintf (wanted, sizeof wanted, "%s", word);
  }
  free (copy);
  for (kind = strtok_r (wanted, "|", &saved); kind;
       kind = strtok_r (NULL, "|", &saved))
    offer_kind (c, kind);
}

static void
offer_options (const struct complete *c, const struct option *options)
{
  char text[64];

  for (const struct option *o = options; o && o->name; o++) {
    snprintf (text, sizeof text, "--%s", o->name);
    offer_option (c, text);
  }
}

static void
offer_commands (const struct complete *c)
{
  const char *last = "";

  for (const struct command *k = c->ctl->commands; k->noun; k++) {
    if (k->help == NULL)
      continue;
    if (c->noun == NULL && strcmp (last, k->noun) != 0)
      offer (c, last = k->noun);
    if (c->noun && strcmp (c->noun, k->noun) == 0)
      offer (c, k->verb);
  }
}

/* --- The words before ---------------------------------------------------- */

static void
take_word (struct complete *c, const char *word)
{
  if (c->open) {
    option_take (c->ctl, c->open, word);
    c->open = NULL;
  }
  else if (strncmp (word, "--", 2) == 0) {
    const struct option *o = option_find (general_options, word + 2,
                                          strlen (word + 2));

    if (o == NULL && c->command)
      o = option_find (c->command->options, word + 2, strlen (word + 2));
    c->open = o && o->value ? o : NULL;
  }
  else if (c->command) {
    if (c->plain++ == 0)
      c->first = word;
  }
  else if (c->noun == NULL) {
    c->noun = word;
    c->command = option_find_command (c->ctl->commands, word, NULL);
  }
  else
    c->command = option_find_command (c->ctl->commands, c->noun, word);
}

int
cmd_complete (struct ctl *ctl, const struct args *args)
{
  struct complete c = { .ctl = ctl, .typed = "" };
  const char *word;

  ctl->timeout_ms = TIMEOUT_MS;
  for (unsigned i = 0; (word = args_plain (args, i)) != NULL; i++) {
    if (i > 0)
      take_word (&c, c.typed);
    c.typed = word;
  }
  if (c.open)
    offer_kind (&c, c.open->value);
  else if (c.typed[0] == '-') {
    if (c.command)
      offer_options (&c, c.command->options);
    offer_options (&c, general_options);
  }
  else if (c.command)
    offer_argument (&c);
  else
    offer_commands (&c);
  return EXIT_OK;
}
