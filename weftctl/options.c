/* options.c: the command line of weftctl.
 *
 * The lists of commands and options are the only description of what is
 * accepted: they drive the parser and the help alike, so that neither knows
 * an option that the other does not.  The general options may stand anywhere.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "ctl.h"
#include "output.h"

#define TIMEOUT_S_DEFAULT 30
#define TIMEOUT_S_MAX 86400

const struct option general_options[] = {
  { "admin", "URL",
    "where weftd listens (env WEFT_ADMIN; default " ADMIN_URL_DEFAULT ")" },
  { "tls", "DIR", "the certificates for https (env WEFT_TLS)" },
  { "token-file", "FILE", "a file with an API token (env WEFT_TOKEN_FILE)" },
  { "json", NULL, "print JSON" },
  { "dry-run", NULL, "show what would be done, and stop" },
  { "yes", NULL, "ask nothing, go on" },
  { "no-color", NULL, "no colours (as env NO_COLOR)" },
  { "timeout", "SECONDS",
    "how long to wait for weftd, and for what was asked to be done (30)" },
  { "help", NULL, "print this help; after a noun, the help of that noun" },
  { "version", NULL, "print the version" },
  { NULL, NULL, NULL }
};

/* --- Help ---------------------------------------------------------------- */

static void
help_options (const struct option *options)
{
  for (const struct option *o = options; o && o->name; o++) {
    char left[40];

    snprintf (left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "",
              o->value ? o->value : "");
    printf ("      %-20s %s\n", left, o->help);
  }
}

/* All commands, those of a noun, or one. */
static void
help (const struct command *all, const char *noun, const char *verb)
{
  printf ("usage:\n");
  for (const struct command *c = all; c->noun; c++) {
    if (c->help == NULL || (noun && strcmp (noun, c->noun) != 0) ||
        (verb && (c->verb == NULL || strcmp (verb, c->verb) != 0)))
      continue;
    printf ("  weftctl %s%s%s%s%s\n", c->noun, c->verb ? " " : "",
            c->verb ? c->verb : "", *c->arguments ? " " : "", c->arguments);
    printf ("      %s\n", c->help);
    if (noun)
      help_options (c->options);
  }
  printf ("\noptions of every command:\n");
  help_options (general_options);
  if (noun == NULL)
    printf ("\nThe options of a command: weftctl NOUN --help.  Everything "
            "else: man weftctl.\n");
}

/* --- Parsing ------------------------------------------------------------- */

/* The words seen so far, and what they mean. */
struct parse {
  struct ctl *ctl;
  const char *noun;
  const struct command *command;
  bool want_help, no_color;
  const char *timeout;
  struct args *args;
};

const struct command *
option_find_command (const struct command *all, const char *noun,
                     const char *verb)
{
  for (const struct command *c = all; c->noun; c++)
    if (strcmp (c->noun, noun) == 0 &&
        (verb ? c->verb && strcmp (c->verb, verb) == 0 : c->verb == NULL))
      return c;
  return NULL;
}

/* "ls, show, rm" */
static void
verbs_of (const struct command *all, const char *noun, char *text, size_t size)
{
  text[0] = '\0';
  for (const struct command *c = all; c->noun && c->help; c++)
    if (noun == NULL ? c == all || strcmp (c->noun, c[-1].noun) != 0
                     : strcmp (c->noun, noun) == 0)
      output_text_add (text, size, "%s%s", *text ? ", " : "",
                       noun ? c->verb : c->noun);
}

/* A word that is no option: the noun, the verb, or a plain argument. */
static int
parse_word (struct parse *p, const char *word)
{
  const struct command *c = p->ctl->commands;
  char known[300];

  if (p->noun == NULL) {
    while (c->noun && strcmp (c->noun, word) != 0)
      c++;
    if (c->noun == NULL) {
      verbs_of (p->ctl->commands, NULL, known, sizeof known);
      ctl_error ("%s: no such noun; there are: %s", word, known);
      return EXIT_USAGE;
    }
    p->noun = word;
    p->command = option_find_command (p->ctl->commands, word, NULL);
    return EXIT_OK;
  }
  if (p->command == NULL) {
    p->command = option_find_command (p->ctl->commands, p->noun, word);
    if (p->command == NULL) {
      verbs_of (p->ctl->commands, p->noun, known, sizeof known);
      ctl_error ("%s %s: no such verb; there are: %s", p->noun, word, known);
      return EXIT_USAGE;
    }
    return EXIT_OK;
  }
  p->args->arg[p->args->count++] = (struct arg) { NULL, word };
  return EXIT_OK;
}

const struct option *
option_find (const struct option *options, const char *name, size_t length)
{
  for (const struct option *o = options; o && o->name; o++)
    if (strlen (o->name) == length && memcmp (o->name, name, length) == 0)
      return o;
  return NULL;
}

bool
option_take (struct ctl *ctl, const struct option *option, const char *value)
{
  if (strcmp (option->name, "admin") == 0)
    ctl->admin_url = value;
  else if (strcmp (option->name, "tls") == 0)
    ctl->tls_dir = value;
  else if (strcmp (option->name, "token-file") == 0)
    ctl->token_file = value;
  else
    return false;
  return true;
}

/* An option: argv[*i], with its value in the same word or the next one. */
static int
parse_option (struct parse *p, int argc, char **argv, int *i)
{
  const char *name = argv[*i] + 2, *value = strchr (name, '=');
  size_t length = value ? (size_t) (value++ - name) : strlen (name);
  const struct option *own, *o;

  own = p->command ? option_find (p->command->options, name, length) : NULL;
  o = own ? own : option_find (general_options, name, length);
  if (o == NULL) {
    ctl_error ("%s: %s%s%s has no such option; see weftctl %s%s--help",
               argv[*i], p->noun ? p->noun : "weftctl",
               p->command && p->command->verb ? " " : "",
               p->command && p->command->verb ? p->command->verb : "",
               p->noun ? p->noun : "", p->noun ? " " : "");
    return EXIT_USAGE;
  }
  if (o->value && value == NULL && (value = argv[++*i]) == NULL) {
    ctl_error ("--%s: its value is missing: --%s %s", o->name, o->name,
               o->value);
    return EXIT_USAGE;
  }
  if (o->value == NULL && value) {
    ctl_error ("--%s: takes no value; write --%s alone", o->name, o->name);
    return EXIT_USAGE;
  }
  if (own)
    p->args->arg[p->args->count++] = (struct arg) { o->name, value };
  else if (option_take (p->ctl, o, value))
    ;
  else if (strcmp (o->name, "help") == 0)
    p->want_help = true;
  else if (strcmp (o->name, "version") == 0)
    return -1;
  else if (strcmp (o->name, "dry-run") == 0)
    p->ctl->dry_run = true;
  else if (strcmp (o->name, "json") == 0)
    p->ctl->json = true;
  else if (strcmp (o->name, "yes") == 0)
    p->ctl->yes = true;
  else if (strcmp (o->name, "no-color") == 0)
    p->no_color = true;
  else if (strcmp (o->name, "timeout") == 0)
    p->timeout = value;
  return EXIT_OK;
}

/* All words are read: is that a command? */
static int
parse_check (struct parse *p)
{
  const struct command *c = p->command;
  unsigned n = 0;
  uint64_t seconds = TIMEOUT_S_DEFAULT;
  struct arg timeout = { "timeout", p->timeout };
  struct args just = { &timeout, p->timeout != NULL };
  char known[300];

  if (c == NULL) {
    verbs_of (p->ctl->commands, p->noun, known, sizeof known);
    if (p->noun)
      ctl_error ("%s: what with it? There are: %s", p->noun, known);
    else
      ctl_error ("say what to do: %s; or --help", known);
    return EXIT_USAGE;
  }
  while (args_plain (p->args, n))
    n++;
  if (n < c->args_min || n > c->args_max) {
    ctl_error ("%s%s%s: too %s arguments; it is: weftctl %s%s%s %s", c->noun,
               c->verb ? " " : "", c->verb ? c->verb : "",
               n < c->args_min ? "few" : "many", c->noun, c->verb ? " " : "",
               c->verb ? c->verb : "", c->arguments);
    return EXIT_USAGE;
  }
  if (args_number (&just, "timeout", 1, TIMEOUT_S_MAX, &seconds) != EXIT_OK)
    return EXIT_USAGE;
  if (p->ctl->dry_run && !c->dry_run) {
    ctl_error ("%s%s%s: knows no --dry-run; nothing was done", c->noun,
               c->verb ? " " : "", c->verb ? c->verb : "");
    return EXIT_USAGE;
  }
  p->ctl->timeout_given = p->timeout != NULL;
  p->ctl->timeout_ms = (unsigned) seconds * 1000;
  return EXIT_OK;
}

int
options_parse (int argc, char **argv, struct ctl *ctl,
               const struct command **command, struct args *args)
{
  struct parse p = { .ctl = ctl, .args = args };
  bool only_words = false;
  int r = EXIT_OK;

  *command = NULL;
  for (int i = 1; i < argc && r == EXIT_OK; i++)
    if (only_words || argv[i][0] != '-' || argv[i][1] == '\0')
      r = parse_word (&p, argv[i]);
    else if (strcmp (argv[i], "--") == 0)
      only_words = true;
    else if (strcmp (argv[i], "-h") == 0)
      p.want_help = true;
    else if (argv[i][1] != '-') {
      ctl_error ("%s: there are no short options; see weftctl --help", argv[i]);
      r = EXIT_USAGE;
    }
    else
      r = parse_option (&p, argc, argv, &i);

  output_init (p.no_color);
  if (r == -1) {
    printf ("weftctl %s\n", PACKAGE_VERSION);
    return EXIT_OK;
  }
  if (r == EXIT_OK && p.want_help) {
    help (ctl->commands, p.noun, p.command ? p.command->verb : NULL);
    return EXIT_OK;
  }
  if (r == EXIT_OK)
    r = parse_check (&p);
  if (r == EXIT_OK)
    *command = p.command;
  return r;
}
