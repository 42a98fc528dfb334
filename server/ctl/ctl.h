/* ctl.h: weftctl, the command line of Weft: a noun, then a verb.
 *
 *   weftctl.c    the list of commands; main
 *   options.c    the command line, and the help that is made of the same lists
 *   output.c     tables, sizes, questions, error lines
 *   cmd-NOUN.c   a noun's verbs
 *   device.c     block devices over an NBD URI: nbd-client, or nbdfuse + loop
 *   record.c     what `attach` did on this host, so that `detach` can undo it
 *   process.c    other programs
 *
 * A command returns the exit status of the program.  Whoever finds out that
 * something went wrong prints the one line about it (ctl_error) and returns
 * the status; whoever gets a status other than EXIT_OK passes it on.
 */

#ifndef WEFT_CTL_H
#define WEFT_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "limits.h"

/* Documented in weftctl(8). */
enum exit_status {
  EXIT_OK = 0,
  EXIT_FAILED = 1,      /* it could not be done, or the user said no */
  EXIT_USAGE = 2,       /* the command line is wrong */
  EXIT_REFUSED = 3,     /* weftd refused it, or knows no such thing */
  EXIT_UNREACHABLE = 4, /* no answer from weftd */
};

struct admin;

/* What holds for every command. */
struct ctl {
  const char *admin_url;
  struct admin *admin; /* made by the first ctl_call */
  bool json, yes;
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

struct option {
  const char *name;  /* without the dashes */
  const char *value; /* what stands for its value in the help; NULL: a switch */
  const char *help;
};

struct command {
  const char *noun, *verb;      /* verb is NULL where the noun says it all */
  const char *arguments;        /* for the help */
  unsigned args_min, args_max;  /* how many plain arguments */
  const char *help;
  const struct option *options; /* ended by a NULL name; or NULL */
  int (*run) (struct ctl *ctl, const struct args *args);
};
extern const struct command commands[]; /* ended by a NULL noun */

/* options.c */

/* Read the whole command line into ctl, *command and *args.  Returns EXIT_OK;
 * or EXIT_USAGE, said why.  When help or the version was asked for, it is
 * printed, *command is NULL, and EXIT_OK is returned.
 */
int options_parse (int argc, char **argv, struct ctl *ctl,
                   const struct command **command, struct args *args);

/* The last value of an option (NULL: not given), whether a switch was given,
 * and the plain argument number i (NULL: there are fewer).
 */
const char *args_value (const struct args *args, const char *name);
bool args_switch (const struct args *args, const char *name);
const char *args_plain (const struct args *args, unsigned i);

/* A number from min to max; *n stays when the option was not given. */
int args_number (const struct args *args, const char *name, uint64_t min,
                 uint64_t max, uint64_t *n);

/* A size: 65536, 64K, 1.5G.  -1 when it is none or isn't whole bytes. */
int size_parse (const char *text, uint64_t *bytes);

/* Is it a name as Weft gives to arrays and nodes? */
bool name_valid (const char *text);
/* Checked before a name becomes part of a URL or a path. */
int ctl_check_name (const char *what, const char *name);

/* weftctl.c */

/* Call weftd.  EXIT_OK with the reply in *reply (to be decrefed), or a status
 * with the reason said.
 */
int ctl_call (struct ctl *ctl, const char *method, const char *path,
              const json_t *body, json_t **reply);
/* GET what an `ls` prints as a table.  False: with --json it is printed already,
 * or it failed; *status is the command's.
 */
bool ctl_list (struct ctl *ctl, const char *path, json_t **reply, int *status);
/* GET an array; `name` is checked. */
int ctl_get_array (struct ctl *ctl, const char *name, json_t **array);

/* Say "weftctl: ..." on standard error, in one line. */
void ctl_error (const char *format, ...)
  __attribute__ ((format (printf, 1, 2)));

/* The name of this host as the plugin makes it: the host name up to its first
 * dot, turned into a name.
 */
void ctl_node_name (char name[NAME_BYTES_MAX + 1]);

/* Milliseconds of a clock that only goes forward, and a pause. */
uint64_t ctl_now_ms (void);
void ctl_sleep_ms (unsigned ms);

/* The commands. */
int cmd_status (struct ctl *ctl, const struct args *args);
int cmd_node_ls (struct ctl *ctl, const struct args *args);
int cmd_disk_format (struct ctl *ctl, const struct args *args);
int cmd_disk_ls (struct ctl *ctl, const struct args *args);
int cmd_disk_forget (struct ctl *ctl, const struct args *args);
int cmd_array_create (struct ctl *ctl, const struct args *args);
int cmd_array_ls (struct ctl *ctl, const struct args *args);
int cmd_array_show (struct ctl *ctl, const struct args *args);
int cmd_array_rm (struct ctl *ctl, const struct args *args);
int cmd_array_replace (struct ctl *ctl, const struct args *args);
int cmd_array_spare (struct ctl *ctl, const struct args *args);
int cmd_array_set (struct ctl *ctl, const struct args *args);
int cmd_array_import (struct ctl *ctl, const struct args *args);
int cmd_rebuild_ls (struct ctl *ctl, const struct args *args);
int cmd_rebuild_pause (struct ctl *ctl, const struct args *args);
int cmd_rebuild_resume (struct ctl *ctl, const struct args *args);
int cmd_rebuild_cancel (struct ctl *ctl, const struct args *args);
int cmd_rebuild_join (struct ctl *ctl, const struct args *args);
int cmd_rebuild_rate (struct ctl *ctl, const struct args *args);
int cmd_rebuild_wait (struct ctl *ctl, const struct args *args);
int cmd_map (struct ctl *ctl, const struct args *args);
int cmd_attach (struct ctl *ctl, const struct args *args);
int cmd_detach (struct ctl *ctl, const struct args *args);

/* The disk that `text` means out of weftd's list: its UUID or the beginning
 * of it, NODE:PATH, or a PATH that only one node has.
 */
int disk_resolve (const json_t *disks, const char *text, const char **uuid);

/* The path of the API for the member that the first two plain arguments name,
 * array and position, with `more` behind it.
 */
int ctl_member_path (const struct args *args, const char *more,
                     unsigned *member, char *path, size_t size);

/* How far a rebuild is, and what it waits for: "1.2G of 3G (40.0 %), ...". */
#define REBUILD_TEXT_BYTES 600
const char *rebuild_text (const json_t *rebuild, char text[REBUILD_TEXT_BYTES]);

#endif /* WEFT_CTL_H */
