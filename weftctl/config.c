/* config.c: where weftd is, and who we are.
 *
 * A setting is taken from the command line, else from the environment, else
 * from /etc/weft/weft.conf: lines of NAME=VALUE as systemd reads them for a
 * service, with the same names as in the environment.
 *
 * `weftctl login` leaves a token behind in ~/.config/weft/token:
 *
 *   TOKEN
 *   # NAME URL
 *
 * with the token's name in weftd's list, and the weftd that gave it: it is sent
 * to no other.  Secrets are never words of a command line, where every user of
 * the host could read them.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"

#define CONF_FILE "/etc/weft/weft.conf"
#define FILE_BYTES_MAX 65536

/* What config_load found in the file; lives as long as weftctl. */
static char *conf_text;

/* --- Files ---------------------------------------------------------------- */

/* The whole of a small file as a text, to be freed; NULL with errno. */
static char *
read_small (const char *path, mode_t *mode)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC);
  char *text = fd == -1 ? NULL : malloc (FILE_BYTES_MAX);
  struct stat st;
  size_t used = 0;
  ssize_t n = 0;
  int e;

  if (text && fstat (fd, &st) == 0) {
    *mode = st.st_mode;
    do
      n = read (fd, text + used, FILE_BYTES_MAX - 1 - used);
    while (n > 0 && (used += (size_t) n) < FILE_BYTES_MAX - 1);
    text[used] = '\0';
  }
  else
    n = -1;
  e = errno;
  if (n == -1) {
    free (text);
    text = NULL;
  }
  if (fd != -1)
    close (fd);
  errno = e;
  return text;
}

void
secret_free (char *secret)
{
  if (secret)
    explicit_bzero (secret, strlen (secret));
  free (secret);
}

int
secret_read (const char *path, char **secret)
{
  mode_t mode = 0;
  char *text = read_small (path, &mode);

  *secret = NULL;
  if (text == NULL) {
    ctl_error ("%s: %s; it was to hold a secret in its first line", path,
               strerror (errno));
    return EXIT_USAGE;
  }
  if (S_ISREG (mode) && mode & S_IRWXO) {
    secret_free (text);
    ctl_error ("%s: everybody on this host may use it; make it private by: "
               "chmod 600 %s",
               path, path);
    return EXIT_USAGE;
  }
  text[strcspn (text, "\r\n")] = '\0';
  if (text[0] == '\0') {
    free (text);
    ctl_error ("%s: its first line is empty; it was to hold a secret", path);
    return EXIT_USAGE;
  }
  *secret = text;
  return EXIT_OK;
}

/* --- weft.conf ------------------------------------------------------------ */

/* The value of a line NAME=VALUE, or NULL; in place, quotes are taken off. */
static char *
line_value (char *line, const char *name)
{
  size_t n = strlen (name), end;

  line += strspn (line, " \t");
  if (strncmp (line, name, n) != 0 || line[n] != '=')
    return NULL;
  line += n + 1;
  end = strlen (line);
  while (end > 0 && strchr (" \t", line[end - 1]))
    line[--end] = '\0';
  if (end >= 2 && (line[0] == '"' || line[0] == '\'') &&
      line[end - 1] == line[0]) {
    line[end - 1] = '\0';
    line++;
  }
  return line;
}

/* The first of them that is not empty: as given, by environment, by file. */
static void
choose (const char **setting, const char *name, const char *environment,
        size_t bytes)
{
  if (*setting == NULL && environment && *environment)
    *setting = environment;
  for (char *line = conf_text; *setting == NULL && line < conf_text + bytes;
       line += strlen (line) + 1) {
    char *value = line_value (line, name);

    if (value && *value)
      *setting = value;
  }
}

int
config_load (struct ctl *ctl)
{
  const char *path = getenv ("WEFT_CONF");
  size_t bytes = 0;
  mode_t mode;

  if (path == NULL || *path == '\0')
    path = CONF_FILE;
  conf_text = read_small (path, &mode);
  if (conf_text) {
    bytes = strlen (conf_text);
    /* `choose` goes from line to line, each a text of its own. */
    for (size_t i = 0; i < bytes; i++)
      if (conf_text[i] == '\n' || conf_text[i] == '\r')
        conf_text[i] = '\0';
  }
  else if (errno != ENOENT && errno != ENOTDIR) {
    ctl_error ("%s: %s", path, strerror (errno));
    return EXIT_FAILED;
  }
  choose (&ctl->admin_url, "WEFT_ADMIN", getenv ("WEFT_ADMIN"), bytes);
  choose (&ctl->tls_dir, "WEFT_TLS", getenv ("WEFT_TLS"), bytes);
  choose (&ctl->token_file, "WEFT_TOKEN_FILE", getenv ("WEFT_TOKEN_FILE"),
          bytes);
  choose (&ctl->node, "WEFT_NODE", getenv ("WEFT_NODE"), bytes);
  if (ctl->admin_url == NULL)
    ctl->admin_url = ADMIN_URL_DEFAULT;
  return EXIT_OK;
}

/* --- The token that login left behind ------------------------------------- */

#define LOGIN_PATH_BYTES 4096

static bool
login_path (char path[LOGIN_PATH_BYTES])
{
  const char *config = getenv ("XDG_CONFIG_HOME"), *home = getenv ("HOME");
  int n;

  if (config && config[0] == '/')
    n = snprintf (path, LOGIN_PATH_BYTES, "%s/weft/token", config);
  else if (home && home[0] == '/')
    n = snprintf (path, LOGIN_PATH_BYTES, "%s/.config/weft/token", home);
  else
    return false;
  return n > 0 && n < LOGIN_PATH_BYTES;
}

/* The name in "# NAME URL", where the URL is that of our weftd. */
static char *
login_name (const struct ctl *ctl, const char *line)
{
  size_t n, url = strlen (ctl->admin_url);
  const char *end;

  if (strncmp (line, "# ", 2) != 0)
    return NULL;
  line += 2;
  n = strcspn (line, " \n");
  if (line[n] != ' ' || n == 0 ||
      strncmp (line + n + 1, ctl->admin_url, url) != 0)
    return NULL;
  end = line + n + 1 + url;
  return end[strspn (end, "\n")] == '\0' ? strndup (line, n) : NULL;
}

/* Its token and name for our weftd; both NULL where there is none. */
static void
login_read (const struct ctl *ctl, char **token, char **name)
{
  char path[LOGIN_PATH_BYTES], *text = NULL;
  size_t first;
  mode_t mode;

  *token = *name = NULL;
  if (login_path (path) && (text = read_small (path, &mode)) != NULL) {
    first = strcspn (text, "\n");
    if (text[first] == '\n')
      *name = login_name (ctl, text + first + 1);
    if (*name)
      *token = strndup (text, first);
  }
  secret_free (text);
}

int
config_token (const struct ctl *ctl, char **token)
{
  char *name;

  if (ctl->token_file)
    return secret_read (ctl->token_file, token);
  login_read (ctl, token, &name);
  free (name);
  return EXIT_OK;
}

char *
config_login_name (const struct ctl *ctl)
{
  char *token, *name;

  login_read (ctl, &token, &name);
  secret_free (token);
  return name;
}

int
config_login_save (const struct ctl *ctl, const char *name, const char *token)
{
  char path[LOGIN_PATH_BYTES], temporary[LOGIN_PATH_BYTES + 8];
  bool ok = false;
  FILE *f = NULL;
  int fd = -1;

  if (!login_path (path)) {
    ctl_error ("there is no home directory to keep a token in: set HOME");
    return EXIT_FAILED;
  }
  /* The directories that lead there are readable for nobody else. */
  for (char *p = strchr (path + 1, '/'); p; p = strchr (p + 1, '/')) {
    *p = '\0';
    mkdir (path, 0700);
    *p = '/';
  }
  snprintf (temporary, sizeof temporary, "%s.XXXXXX", path);
  fd = mkostemp (temporary, O_CLOEXEC); /* with mode 0600 */
  if (fd != -1 && (f = fdopen (fd, "w")) != NULL) {
    ok = fprintf (f, "%s\n# %s %s\n", token, name, ctl->admin_url) > 0 &&
         fflush (f) == 0 && fsync (fd) == 0;
    ok = fclose (f) == 0 && ok && rename (temporary, path) == 0;
  }
  if (!ok) {
    ctl_error ("%s: %s; the token could not be kept", path, strerror (errno));
    if (fd != -1)
      unlink (temporary);
  }
  return ok ? EXIT_OK : EXIT_FAILED;
}

void
config_login_remove (void)
{
  char path[LOGIN_PATH_BYTES];

  if (login_path (path))
    unlink (path);
}
