/* cmd-login.c: weftctl setup, login, logout, whoami and user password.
 *
 * A password goes to weftd once: `login` logs in as the page does, has an API
 * token made for itself, logs out, and keeps the token (config.c).
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/admin.h"
#include "ctl.h"
#include "output.h"

#define EXPIRES_S_DEFAULT (30u * 86400)
#define EXPIRES_S_MAX (3660u * 86400)

/* The secret in the file that `option` names, or `what` as somebody types it. */
static int
secret_ask (const struct args *args, const char *option, const char *question,
            const char *what, char **secret)
{
  const char *file = args_value (args, option);

  if (file)
    return config_secret_read (file, secret);
  *secret = output_ask_word (question, true);
  if (*secret)
    return EXIT_OK;
  ctl_error ("there is no terminal to ask for %s on; put it into a file of "
             "yours alone, and give that by --%s",
             what, option);
  return EXIT_USAGE;
}

int
login_ask_twice (const struct args *args, const char *option,
                 const char *question, const char *what, char **secret)
{
  char *again;
  int r = secret_ask (args, option, question, what, secret);

  if (r != EXIT_OK || args_value (args, option))
    return r;
  again = output_ask_word ("Once more:", true);
  if (again && strcmp (again, *secret) == 0) {
    config_secret_free (again);
    return EXIT_OK;
  }
  config_secret_free (again);
  config_secret_free (*secret);
  *secret = NULL;
  ctl_error ("it was typed in two different ways; nothing was changed");
  return EXIT_FAILED;
}

int
login_ask_password (const struct args *args, bool twice, char **password)
{
  return twice ? login_ask_twice (args, "password-file",
                                  "Password:", "a password", password)
               : secret_ask (args, "password-file", "Password:", "a password",
                             password);
}

/* The next call is by the login that weftd answered with `me`: its cookie, which the client
 * keeps, counts only with this.
 */
static void
send_origin_secret (struct ctl *ctl, const json_t *me)
{
  admin_header (ctl->admin, "X-Weft-Origin-Secret",
                output_json_text (me, "origin_secret"));
}

/* The next login from here shows that this user has logged in here before.
 * Without that weftd counts each login as another device, of which it keeps a
 * few.  A login is valid even if this fails, and a message says so.
 */
static void
keep_device (struct ctl *ctl, const char *user, const json_t *me)
{
  if (output_json_has (me, "device"))
    config_login_save (ctl, CONFIG_DEVICE, user,
                       output_json_text (me, "device"));
}

/* Log in as the page does; show weftd the device if this user has logged in
 * here before.
 */
static int
begin_login (struct ctl *ctl, const struct args *args, const char *user,
             const char *password, json_t **me)
{
  char *device = config_device (ctl, user);
  json_t *body = json_pack ("{s:s, s:s, s:s*, s:s*}", "user", user, "password",
                            password, "device", device, "code",
                            args_value (args, "code"));
  int r;

  config_secret_free (device);
  if (body == NULL) {
    ctl_error ("user and password must be UTF-8");
    return EXIT_USAGE;
  }
  r = ctl_call (ctl, "POST", "/api/v1/login", body, me);
  if (r == EXIT_OK)
    keep_device (ctl, user, *me);
  return r;
}

static int
end_login (struct ctl *ctl, json_t *me)
{
  send_origin_secret (ctl, me);
  json_object_del (me, "origin_secret"); /* not shown */
  json_object_del (me, "device");
  return ctl_call (ctl, "POST", "/api/v1/logout", NULL, NULL);
}

/* Logged in by the cookie that the client keeps: have the token made, and log
 * out.  `me` is taken over.
 */
static int
take_token (struct ctl *ctl, json_t *me, uint64_t expires)
{
  const char *user = output_json_text (me, "user"),
             *role = output_json_text (me, "role");
  char host[NAME_BYTES_MAX + 1], name[NAME_BYTES_MAX + 1];
  json_t *token;
  uint32_t number = 0;
  int r;

  /* The number tells this token from others of the same user and host. */
  ctl_node_name (host);
  if (getrandom (&number, sizeof number, 0) != (ssize_t) sizeof number)
    number = (uint32_t) getpid ();
  snprintf (name, sizeof name, "weftctl-%.20s-%.20s-%08" PRIx32, user, host,
            number);
  send_origin_secret (ctl, me);
  r = ctl_call (ctl, "POST", "/api/v1/tokens",
                json_pack ("{s:s, s:s, s:I, s:b}", "name", name, "role", role,
                           "expires_s", (json_int_t) expires, "login", 1),
                &token);
  if (r == EXIT_OK)
    r = config_login_save (ctl, CONFIG_TOKEN, name,
                           output_json_text (token, "token"));
  json_decref (token);
  if (r == EXIT_OK)
    r = end_login (ctl, me);
  return ctl_say (ctl, r, me, "%s (%s) at %s", user, role, ctl->admin_url);
}

int
cmd_login (struct ctl *ctl, const struct args *args)
{
  const char *given = args_value (args, "user");
  uint64_t expires = EXPIRES_S_DEFAULT;
  char *user, *password = NULL;
  json_t *me = NULL;
  int r = args_time (args, "expires", 60, EXPIRES_S_MAX, &expires);

  if (r != EXIT_OK || (r = config_login_check ()) != EXIT_OK ||
      (r = ctl_connect_afresh (ctl)) != EXIT_OK)
    return r;
  user = given ? strdup (given) : output_ask_word ("User:", false);
  if (user == NULL) {
    ctl_error ("there is no terminal to ask on; give --user NAME and "
               "--password-file FILE");
    return EXIT_USAGE;
  }
  r = login_ask_password (args, false, &password);
  if (r == EXIT_OK)
    r = begin_login (ctl, args, user, password, &me);
  config_secret_free (password);
  if (r == EXIT_OK)
    r = take_token (ctl, me, expires);
  free (user);
  return r;
}

/* A user who knows the present password, and so can log in, may change it. */
int
cmd_user_password (struct ctl *ctl, const struct args *args)
{
  const char *user = args_plain (args, 0);
  char *current = NULL, *new = NULL, path[CTL_PATH_BYTES];
  json_t *change = NULL, *me = NULL;
  int r = ctl_path ("a user", user, "", path), ended;

  if (r == EXIT_OK)
    r = ctl_connect_afresh (ctl);
  if (r == EXIT_OK)
    r = secret_ask (args, "current-file",
                    "The password as it is:", "the password as it is",
                    &current);
  if (r == EXIT_OK)
    r = login_ask_password (args, true, &new);
  if (r == EXIT_OK) {
    change = json_pack ("{s:s, s:s}", "current", current, "password", new);
    if (change == NULL) {
      ctl_error ("passwords must be UTF-8");
      r = EXIT_USAGE;
    }
  }
  if (r == EXIT_OK)
    r = begin_login (ctl, args, user, current, &me);
  config_secret_free (current);
  config_secret_free (new);
  if (r == EXIT_OK) {
    send_origin_secret (ctl, me);
    r = ctl_call (ctl, "PATCH", path, json_incref (change), NULL);
    ended = end_login (ctl, me);
    r = r == EXIT_OK ? ended : r;
  }
  json_decref (change);
  json_decref (me);
  return ctl_say (ctl, r, json_pack ("{s:s, s:b}", "user", user, "changed", 1),
                  "user %s: has another password", user);
}

int
cmd_logout (struct ctl *ctl, const struct args *args)
{
  char *name = config_login_name (ctl), path[CTL_PATH_BYTES];
  int r = EXIT_OK;

  if (name == NULL) {
    ctl_error ("not logged in at %s by weftctl login", ctl->admin_url);
    return EXIT_FAILED;
  }
  if (ctl_path ("a token", name, "", path) == EXIT_OK) {
    ctl->token_file = NULL;
    r = ctl_call (ctl, "DELETE", path, NULL, NULL);
  }
  free (name);
  /* A token that weftd does not take any more is gone as well. */
  if (r == EXIT_OK || r == EXIT_REFUSED)
    config_login_remove ();
  return ctl_say (ctl, r, NULL, "logged out");
}

static void
print_me (const json_t *me)
{
  if (output_json_yes (me, "setup_required"))
    printf ("nobody: this weftd has no user yet; weftctl setup makes the "
            "first\n");
  else if (!output_json_has (me, "role"))
    printf ("nobody: log in by weftctl login\n");
  else if (json_is_false (json_object_get (me, "login_required")))
    printf ("everybody (%s): this weftd asks nobody to log in\n",
            output_json_text (me, "role"));
  else
    printf ("%s (%s), by %s\n", output_json_text (me, "user"),
            output_json_text (me, "role"), output_json_text (me, "via"));
}

int
cmd_whoami (struct ctl *ctl, const struct args *args)
{
  json_t *me;
  int r = ctl_call (ctl, "GET", "/api/v1/me", NULL, &me);

  return ctl_show (ctl, r, me, print_me);
}

/* The token in ".../login.html#setup=TOKEN". */
static int
setup_token (const char *path, char **token)
{
  char *url, *p;
  int r = config_secret_read (path, &url);

  if (r != EXIT_OK)
    return r;
  p = strstr (url, "setup=");
  *token = p ? strdup (p + strlen ("setup=")) : NULL;
  config_secret_free (url);
  if (*token)
    return EXIT_OK;
  ctl_error ("%s: its first line is not the one-time URL that weftd makes "
             "(https://.../login.html#setup=...)",
             path);
  return EXIT_USAGE;
}

int
cmd_setup (struct ctl *ctl, const struct args *args)
{
  const char *file = args_value (args, "url-file"), *user;
  char *token = NULL, *password = NULL;
  json_t *me = NULL;
  int r = ctl_check_name ("a user", user = args_plain (args, 0));

  if (r == EXIT_OK && file == NULL) {
    ctl_error ("setup: give --url-file FILE, the file setup-url in weftd's "
               "state directory");
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK)
    r = ctl_connect_afresh (ctl);
  if (r == EXIT_OK)
    r = setup_token (file, &token);
  if (r == EXIT_OK)
    r = login_ask_password (args, true, &password);
  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", "/api/v1/setup",
                  json_pack ("{s:s, s:s, s:s}", "token", token, "user", user,
                             "password", password),
                  &me);
  config_secret_free (token);
  config_secret_free (password);
  if (r == EXIT_OK) {
    keep_device (ctl, user, me);
    r = end_login (ctl, me);
  }
  return ctl_say (ctl, r, me, "%s is admin of %s; log in by: weftctl login",
                  user, ctl->admin_url);
}
