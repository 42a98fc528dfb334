/* ctl.h: weftctl, the command line of Weft: a noun, then a verb.
 *
 *   weftctl.c      main
 *   commands.c     the list of commands and their options
 *   options.c      the command line, and the help from the same list
 *   args.c         arguments: numbers, times, sizes, names
 *   complete.c     the shell's completion
 *   config.c       the address of weftd and the user: file, environment, tokens
 *   call.c         calls to weftd; asks before a change
 *   say.c          error messages
 *   output.c       tables, sizes, times, questions
 *   progress.c     progress, on a terminal or in a pipe
 *   wait.c         repeated requests until a condition holds
 *   cmd-NOUN.c     a noun's verbs
 *   ctl-device.c   block devices over an NBD URI: nbd-client, or nbdfuse + loop
 *   record.c       the record of an attach on this host, for `detach`
 *   ctl-process.c  other programs
 *
 * A command returns the exit status of the program.  The function that finds an
 * error prints its one line (ctl_error) and returns the status; every caller
 * passes a status other than EXIT_OK on.
 */

#ifndef WEFT_CTL_H
#define WEFT_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/bounds.h"
#include "format/format.h"

/* Documented in weftctl(8). */
enum exit_status {
  EXIT_OK = 0,
  EXIT_FAILED = 1,      /* it could not be done, or the user said no */
  EXIT_USAGE = 2,       /* the command line is wrong */
  EXIT_REFUSED = 3,     /* weftd refused it, or knows no such thing */
  EXIT_UNREACHABLE = 4, /* no answer from weftd */
};

struct admin;
struct command;

/* The common data of every command. */
struct ctl {
  const char *admin_url, *tls_dir, *token_file, *node; /* NULL: not given */
  const struct command *commands;                      /* all that there are */
  struct admin *admin; /* made by the first ctl_call */
  bool json, yes, dry_run;
  bool timeout_given;
  unsigned timeout_ms;
};

/* One word of the command line after noun and verb: an option with its value
 * (NULL for a switch), or with name == NULL a plain argument.
 */
struct arg {
  const char *name;
  const char *value;
};

struct args {
  struct arg *arg;
  size_t count;
};

typedef int command_run (struct ctl *ctl, const struct args *args);

struct option {
  const char *name;  /* without the dashes */
  const char *value; /* the name of its value in the help; NULL: a switch */
  const char *help;
};

struct command {
  const char *noun, *verb;     /* verb is NULL where the noun says it all */
  const char *arguments;       /* for the help */
  unsigned args_min, args_max; /* how many plain arguments */
  const char *help;
  const struct option *options; /* ended by a NULL name; or NULL */
  command_run *run;
  bool dry_run; /* knows --dry-run */
};
/* One without a help is for the shell, and shown nowhere. */
extern const struct command commands[]; /* ended by a NULL noun */

/* options.c */

/* Read the whole command line into ctl, *command and *args.  Returns EXIT_OK;
 * or EXIT_USAGE, said why.  When help or the version was asked for, it is
 * printed, *command is NULL, and EXIT_OK is returned.
 */
int options_parse (int argc, char **argv, struct ctl *ctl,
                   const struct command **command, struct args *args);

/* The options that every command has. */
extern const struct option general_options[];

/* NULL: there is none; verb is NULL for a noun that says it all. */
const struct option *option_find (const struct option *options,
                                  const char *name, size_t length);
const struct command *option_find_command (const struct command *all,
                                           const char *noun, const char *verb);
/* An option that says where weftd is.  False: it is none of these. */
bool option_take (struct ctl *ctl, const struct option *option,
                  const char *value);

/* args.c */

/* The last value of an option (NULL: not given), whether a switch was given,
 * and the plain argument number i (NULL: there are fewer).
 */
const char *args_value (const struct args *args, const char *name);
bool args_switch (const struct args *args, const char *name);
const char *args_plain (const struct args *args, unsigned i);

/* A number from min to max; *n stays when the option was not given. */
int args_number (const struct args *args, const char *name, uint64_t min,
                 uint64_t max, uint64_t *n);

/* The same of a time: 900, 15m, 6h, 30d; in seconds. */
int args_time (const struct args *args, const char *name, uint64_t min,
               uint64_t max, uint64_t *seconds);

/* --groups and --unit, or what they are without. */
int args_stripes (const struct args *args, uint64_t *groups,
                  uint64_t *unit_bytes);

/* A text as a part of a URL; to be freed. */
char *ctl_escape_url (const char *text);

/* A size: 65536, 64K, 1.5G.  -1 when it is none or isn't whole bytes. */
int ctl_parse_size (const char *text, uint64_t *bytes);

/* Checked before a name becomes part of a URL or a path: that of "an array". */
int ctl_check_name (const char *what, const char *name);
/* The path of the API for it, with `more` behind it: /api/v1/arrays/NAME. */
#define CTL_PATH_BYTES 200
int ctl_path (const char *what, const char *name, const char *more,
              char path[CTL_PATH_BYTES]);

/* config.c */

#define ADMIN_URL_DEFAULT "http://127.0.0.1:7380"

/* Fill in what the command line has left open.  EXIT_OK, or said why not. */
int config_load (struct ctl *ctl);

/* The token for calls to weftd, to be freed, or NULL: none.  EXIT_OK, or an
 * error message says why the named one is not valid.
 */
int config_token (const struct ctl *ctl, char **token);

/* The files of `login`, for this weftd alone: a token, whose name is that in
 * weftd's list, and the device by which weftd knows this user here, whose name
 * is the user's.
 */
#define CONFIG_TOKEN "token"
#define CONFIG_DEVICE "device"
/* May they be written in this home directory?  EXIT_OK, or said why not. */
int config_login_check (void);
/* EXIT_OK, or said why not. */
int config_login_save (const struct ctl *ctl, const char *what,
                       const char *name, const char *secret);
/* The device of this user that is left behind, to be freed; NULL: none for this weftd. */
char *config_device (const struct ctl *ctl, const char *user);
/* The name of the token that is left behind: NULL, none for this weftd. */
char *config_login_name (const struct ctl *ctl);
void config_login_remove (void);

/* The first line of a file that holds a secret; to be freed with config_secret_free.
 * EXIT_OK, or said why not.
 */
int config_secret_read (const char *path, char **secret);
void config_secret_free (char *secret);
/* A password by --password-file, or asked for on the terminal. */
int login_ask_password (const struct args *args, bool twice, char **password);
/* A new secret: of the file that `option` names, or typed twice; `what` names it. */
int login_ask_twice (const struct args *args, const char *option,
                     const char *question, const char *what, char **secret);

/* call.c */

/* The client for weftd, made by the first call.  EXIT_OK, or said why not. */
int ctl_connect (struct ctl *ctl);

/* The same as nobody, without a token: to log in. */
int ctl_connect_afresh (struct ctl *ctl);

/* Call weftd; the body is taken over.  EXIT_OK with the reply in *reply (to be
 * decrefed), or a status with the reason said.
 */
int ctl_call (struct ctl *ctl, const char *method, const char *path,
              json_t *body, json_t **reply);
/* The same without a word when weftd does not answer: EXIT_UNREACHABLE, and
 * ctl_unreachable says it.
 */
int ctl_unreachable (struct ctl *ctl);
int ctl_try (struct ctl *ctl, const char *method, const char *path,
             json_t *body, json_t **reply);
/* The end of a command.  With EXIT_OK its reply is shown, as --json has it or
 * by `print`, or printed in a line; with --dry-run there is none, and nothing
 * is printed.  The reply is taken over; returns `status`.
 */
int ctl_show (const struct ctl *ctl, int status, json_t *reply,
              void (*print) (const json_t *reply));
int ctl_say (const struct ctl *ctl, int status, json_t *reply,
             const char *format, ...) __attribute__ ((format (printf, 4, 5)));
/* GET a list, and show it as --json has it or as a table (output.h). */
struct table;
int ctl_ls (struct ctl *ctl, const char *path, const char *list,
            const char *headings, const char *keys,
            void (*row) (struct table *t, const json_t *item));
/* GET what an `ls` prints as a table.  False: with --json it is printed
 * already, or it failed; *status is the command's.
 */
bool ctl_list (struct ctl *ctl, const char *path, json_t **reply, int *status);
/* GET a list that is kept for long, newest first, page by page until there are
 * `limit`: the first page's reply with all of them in its list `key`.
 */
int ctl_pages (struct ctl *ctl, const char *path, const char *key,
               uint64_t limit, json_t **reply);
/* GET what ctl_path makes of it. */
int ctl_get (struct ctl *ctl, const char *what, const char *name,
             const char *more, json_t **reply);

/* Make a change that may cost something: weftctl prints weftd's sentences about
 * the effects, and the user types the name that weftd gives.  With --yes
 * neither is done; with --dry-run nothing else is done, and *reply is NULL. The
 * body is taken over.
 */
int ctl_change (struct ctl *ctl, const char *method, const char *path,
                json_t *body, json_t **reply);
/* ctl_change's two halves, for a command that shows more than sentences.
 * *preflight is weftd's answer: lines, confirm, plan.  The body stays the caller's.
 */
int ctl_preflight (struct ctl *ctl, const char *method, const char *path,
                   json_t *body, json_t **preflight);
int ctl_confirm (struct ctl *ctl, const char *name);
/* The same by a question of yes or no about an array: the result that is
 * missing without a yes ("made"), and the purpose of --yes ("make it").
 */
int ctl_confirm_yes (const struct ctl *ctl, const char *array,
                     const char *question, const char *done, const char *to_do);
/* The same without a preflight: a caller is shut out. */
int ctl_confirm_shut_out (struct ctl *ctl, const char *what, const char *name);

/* say.c */

/* Say "weftctl: ..." on standard error, in one line. */
void ctl_error (const char *format, ...)
  __attribute__ ((format (printf, 1, 2)));

/* The name of this host as the plugin makes it: the host name up to its first
 * dot, turned into a name.
 */
void ctl_node_name (char name[NAME_BYTES_MAX + 1]);

/* The disk that `text` means out of weftd's list: its UUID or the beginning
 * of it, NODE:PATH, or a PATH that only one node has.
 */
int disk_resolve (const json_t *disks, const char *text, const char **uuid);

/* The same of weftd's disks: its UUID in `uuid`. */
int ctl_find_disk (struct ctl *ctl, const char *text,
                   char uuid[FORMAT_UUID_TEXT_BYTES]);

/* The path of the API for the member that the first two plain arguments name,
 * array and position, with `verb` behind it.
 */
int ctl_member_path (const struct args *args, const char *verb,
                     unsigned *member, char path[CTL_PATH_BYTES]);

/* The nodes that may attach an array: "n1,n2:ro,n3:failover" put into the
 * request that makes it; and a line of weftd's list.
 */
int array_allow_request (const char *text, json_t *request);
void array_allow_print (const json_t *array);

/* A volume's name, POOL/NAME.  EXIT_OK, or said why it is none. */
struct volume_name {
  /* a longer name is cut, and still too long */
  char pool[NAME_BYTES_MAX + 2], name[NAME_BYTES_MAX + 2];
};
int volume_split (const char *text, struct volume_name *v);
/* A pool, in lines under an array's name. */
void volume_print_pool (const json_t *pool);

/* The path of the API for a job; a word about how far it is, and thousandths
 * (-1: nobody knows).
 */
#define JOB_PATH_BYTES 160
#define JOB_TEXT_BYTES 600
int job_path (const char *id, char path[JOB_PATH_BYTES]);
const char *job_text (const json_t *job, char text[JOB_TEXT_BYTES]);
int job_permille (const json_t *job);
/* `wait job`. */
int ctl_wait_job (struct ctl *ctl, const char *id);

/* How far a rebuild is, and what it waits for: "1.2G of 3G (40.0 %), ...". */
#define REBUILD_TEXT_BYTES 600
const char *rebuild_text (const json_t *rebuild, char text[REBUILD_TEXT_BYTES]);

#include "commands.h"

#endif /* WEFT_CTL_H */
