/* cmd-user.c: weftctl user, token and audit: who may do what, and who did. */

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
#define LIMIT_DEFAULT 50
#define LIMIT_MAX 100000

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
rm (struct ctl *ctl, const char *what, const char *paths, const char *name)
{
  char path[160];
  int r = ctl_check_name (what, name);

  if (r == EXIT_OK)
    r = ctl_confirm_shut_out (ctl, strchr (what, ' ') + 1, name);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  snprintf (path, sizeof path, "%s/%s", paths, name);
  r = ctl_call (ctl, "DELETE", path, NULL, NULL);
  if (r == EXIT_OK && !ctl->json)
    printf ("%s %s is removed\n", strchr (what, ' ') + 1, name);
  return r;
}

/* --- user ----------------------------------------------------------------- */

int
cmd_user_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *u;
  struct table *t;
  size_t i;
  int r;

  if (!ctl_list (ctl, USERS, &reply, &r))
    return r;
  t = table_new ("USER|ROLE|>LOGINS|SINCE");
  json_array_foreach (json_object_get (reply, "users"), i, u) {
    table_cell (t, "%s", json_text (u, "name"));
    table_cell (t, "%s", json_text (u, "role"));
    table_cell (t, "%" PRIu64, json_number (u, "logins"));
    table_cell (t, "%s", json_text (u, "created_at"));
  }
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
}

/* Send what was given of a user, and say it. */
static int
send_user (struct ctl *ctl, const char *method, const char *path,
           const json_t *body, const char *name, const char *said)
{
  json_t *user;
  int r = ctl_call (ctl, method, path, body, &user);

  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (user);
  else
    printf ("user %s %s\n", name, said);
  json_decref (user);
  return EXIT_OK;
}

int
cmd_user_add (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *role = args_value (args, "role");
  char *password = NULL, said[32];
  json_t *body = NULL;
  int r = ctl_check_name ("a user", name);

  if (r == EXIT_OK && role == NULL) {
    ctl_error ("user add %s: give --role viewer or --role admin", name);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK)
    r = check_role (role);
  if (r == EXIT_OK)
    r = password_ask (args, true, &password);
  if (r == EXIT_OK)
    body = json_pack ("{s:s, s:s, s:s}", "name", name, "role", role, "password",
                      password);
  secret_free (password);
  snprintf (said, sizeof said, "(%s) may log in", role ? role : "");
  if (r == EXIT_OK)
    r = send_user (ctl, "POST", USERS, body, name, said);
  json_decref (body);
  return r;
}

int
cmd_user_set (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *role = args_value (args, "role");
  bool new_password = args_switch (args, "password") ||
                      args_value (args, "password-file");
  char *password = NULL, path[160];
  json_t *body = json_object ();
  int r = ctl_check_name ("a user", name);

  if (r == EXIT_OK && role == NULL && !new_password) {
    ctl_error ("user set %s: give --role ROLE, --password, or --password-file "
               "FILE",
               name);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK && role) {
    r = check_role (role);
    json_object_set_new (body, "role", json_string (role));
  }
  if (r == EXIT_OK && new_password) {
    r = password_ask (args, true, &password);
    if (r == EXIT_OK)
      json_object_set_new (body, "password", json_string (password));
  }
  secret_free (password);
  snprintf (path, sizeof path, USERS "/%s", name);
  if (r == EXIT_OK)
    r = send_user (ctl, "PATCH", path, body, name, "is changed");
  json_decref (body);
  return r;
}

int
cmd_user_rm (struct ctl *ctl, const struct args *args)
{
  return rm (ctl, "a user", USERS, args_plain (args, 0));
}

/* --- token ---------------------------------------------------------------- */

int
cmd_token_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *k;
  struct table *t;
  size_t i;
  int r;

  if (!ctl_list (ctl, TOKENS, &reply, &r))
    return r;
  t = table_new ("TOKEN|ROLE|MADE BY|LAST USED|EXPIRES");
  json_array_foreach (json_object_get (reply, "tokens"), i, k) {
    table_cell (t, "%s", json_text (k, "name"));
    table_cell (t, "%s", json_text (k, "role"));
    table_cell (t, "%s", json_text (k, "created_by"));
    table_cell (t, "%s", json_text (k, "used_at"));
    table_cell (t, "%s", json_text (k, "expires_at"));
  }
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
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
  json_decref (body);
  if (r != EXIT_OK)
    return r;
  /* Alone on standard output, so that it can go straight into a file. */
  if (ctl->json)
    output_json (token);
  else
    printf ("%s\n", json_text (token, "token"));
  json_decref (token);
  return EXIT_OK;
}

int
cmd_token_rm (struct ctl *ctl, const struct args *args)
{
  return rm (ctl, "a token", TOKENS, args_plain (args, 0));
}

/* --- audit ---------------------------------------------------------------- */

int
cmd_audit (struct ctl *ctl, const struct args *args)
{
  uint64_t limit = LIMIT_DEFAULT;
  json_t *reply, *list;
  struct table *t;
  int r = args_number (args, "limit", 1, LIMIT_MAX, &limit);

  if (r == EXIT_OK)
    r = ctl_pages (ctl, "/api/v1/audit", "audit", limit, &reply);
  if (r != EXIT_OK)
    return r;
  if (ctl->json) {
    output_json (reply);
    json_decref (reply);
    return EXIT_OK;
  }
  list = json_object_get (reply, "audit");
  t = table_new ("AT|WHO|VIA|FROM|ACTION|SUBJECT|>STATUS");
  for (size_t i = json_array_size (list); i-- > 0;) {
    const json_t *a = json_array_get (list, i);

    table_cell (t, "%s", json_text (a, "at"));
    table_cell (t, "%s", json_text (a, "who"));
    table_cell (t, "%s", json_text (a, "via"));
    table_cell (t, "%s", json_text (a, "address"));
    table_cell (t, "%s", json_text (a, "action"));
    table_cell (t, "%s", json_text (a, "subject"));
    table_cell (t, "%" PRIu64, json_number (a, "status"));
  }
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
}
