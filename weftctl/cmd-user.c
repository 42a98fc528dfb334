/* cmd-user.c: weftctl user and token: users, their roles, and API tokens. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

#define USERS "/api/v1/users"
#define TOKENS "/api/v1/tokens"
#define EXPIRES_S_MAX (3660u * 86400)

static int
check_role (const char *role)
{
  if (strcmp (role, "viewer") == 0 || strcmp (role, "admin") == 0)
    return EXIT_OK;
  ctl_error ("--role %s: there are viewer and admin", role);
  return EXIT_USAGE;
}

/* Remove a user or a token. */
static int
rm (struct ctl *ctl, const char *what, const char *name)
{
  char path[CTL_PATH_BYTES];
  int r = ctl_path (what, name, "", path);

  if (r == EXIT_OK)
    r = ctl_confirm_shut_out (ctl, strchr (what, ' ') + 1, name);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  r = ctl_call (ctl, "DELETE", path, NULL, NULL);
  return ctl_say (ctl, r, NULL, "%s %s is removed", strchr (what, ' ') + 1,
                  name);
}

/* --- user ----------------------------------------------------------------- */

int
cmd_user_ls (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, USERS, "users", "USER|ROLE|>LOGINS|SECOND FACTOR|SINCE",
                 "name|role|logins:number|totp:yes|created_at", NULL);
}

int
cmd_user_add (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *role = args_value (args, "role");
  char *password = NULL;
  json_t *user = NULL;
  int r = ctl_check_name ("a user", name);

  if (r == EXIT_OK && role == NULL) {
    ctl_error ("user add %s: give --role viewer or --role admin", name);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK)
    r = check_role (role);
  if (r == EXIT_OK)
    r = login_ask_password (args, true, &password);
  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", USERS,
                  json_pack ("{s:s, s:s, s:s}", "name", name, "role", role,
                             "password", password),
                  &user);
  config_secret_free (password);
  return ctl_say (ctl, r, user, "user %s (%s) may log in", name,
                  role ? role : "");
}

int
cmd_user_set (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *role = args_value (args, "role");
  bool new_password = args_switch (args, "password") ||
                      args_value (args, "password-file");
  char *password = NULL, path[CTL_PATH_BYTES];
  json_t *user = NULL, *body;
  int r = ctl_path ("a user", name, "", path);

  if (r == EXIT_OK && role == NULL && !new_password) {
    ctl_error ("user set %s: give --role ROLE, --password, or --password-file "
               "FILE",
               name);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK && role)
    r = check_role (role);
  if (r == EXIT_OK && new_password)
    r = login_ask_password (args, true, &password);
  if (r == EXIT_OK) {
    body = json_pack ("{s:s*, s:s*}", "role", role, "password", password);
    if (body)
      r = ctl_call (ctl, "PATCH", path, body, &user);
    else {
      ctl_error ("the password must be UTF-8");
      r = EXIT_USAGE;
    }
  }
  config_secret_free (password);
  return ctl_say (ctl, r, user, "user %s is changed", name);
}

static void
print_totp (const json_t *reply)
{
  const char *name = output_json_text (reply, "name");

  if (output_json_yes (reply, "on"))
    printf ("%s\n"
            "user %s needs a code at each login from now on: put this into an "
            "app for such codes, as the address above or by its secret; it is "
            "not shown again\n%s\n",
            output_json_text (reply, "uri"), name,
            output_json_text (reply, "secret"));
  else
    printf ("user %s: logs in by the password alone\n", name);
}

int
cmd_user_totp (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *word = args_plain (args, 1);
  bool on = strcmp (word, "on") == 0;
  char path[CTL_PATH_BYTES];
  json_t *reply = NULL;
  int r = ctl_path ("a user", name, "/totp", path);

  if (r == EXIT_OK && !on && strcmp (word, "off") != 0) {
    ctl_error ("user totp %s %s: say on or off", name, word);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK)
    r = ctl_call (
      ctl, "PUT", path,
      json_pack ("{s:b, s:s*}", "on", on, "code", args_value (args, "code")),
      &reply);
  return ctl_show (ctl, r, reply, print_totp);
}

int
cmd_user_rm (struct ctl *ctl, const struct args *args)
{
  return rm (ctl, "a user", args_plain (args, 0));
}

/* --- token ---------------------------------------------------------------- */

int
cmd_token_ls (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, TOKENS, "tokens", "TOKEN|ROLE|MADE BY|LAST USED|EXPIRES",
                 "name|role|created_by|used_at|expires_at", NULL);
}

int
cmd_token_add (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *role = args_value (args, "role");
  uint64_t expires = 0;
  json_t *body, *token;
  int r = ctl_check_name ("a token", name);

  if (r == EXIT_OK)
    r = args_time (args, "expires", 60, EXPIRES_S_MAX, &expires);
  role = role ? role : "viewer";
  if (r == EXIT_OK)
    r = check_role (role);
  if (r != EXIT_OK)
    return r;
  body = json_pack ("{s:s, s:s}", "name", name, "role", role);
  if (expires)
    json_object_set_new (body, "expires_s",
                         json_integer ((json_int_t) expires));
  r = ctl_call (ctl, "POST", TOKENS, body, &token);
  /* The token is alone on standard output, so that it can go into a file. */
  return ctl_say (ctl, r, token, "%s", output_json_text (token, "token"));
}

int
cmd_token_rm (struct ctl *ctl, const struct args *args)
{
  return rm (ctl, "a token", args_plain (args, 0));
}
