/* config.c: the address of weftd, and the user's token.
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
 * to no other.  ~/.config/weft/device-USER has the same form, with the user's name.
 * Its secret goes with the next login, and tells weftd that this user has
 * logged in here before.  Several users of weftd may share a home directory, so each
 * has a file.  Nothing is written in another user's home directory (common/folder.h).
 *
 * Secrets are never words of a command line, where every user of the host could
 * read them.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/folder.h"
#include "ctl.h"

#define CONF_FILE "/etc/weft/weft.conf"
#define FILE_BYTES_MAX 65536

/* The text of the file for config_load; lives as long as weftctl. */
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
config_secret_free (char *secret)
{
  if (secret)
    explicit_bzero (secret, strlen (secret));
  free (secret);
}

int
config_secret_read (const char *path, char **secret)
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
    config_secret_free (text);
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

/* user: of a device; else NULL. */
static bool
login_path (const char *what, const char *user, char path[LOGIN_PATH_BYTES])
{
  const char *config = getenv ("XDG_CONFIG_HOME"), *home = getenv ("HOME");
  bool is_set = config && config[0] == '/';
  const char *base = is_set ? config : home;
  int n;

  if (base == NULL || base[0] != '/')
    return false;
  n = snprintf (path, LOGIN_PATH_BYTES, "%s%s/weft/%s%s%s", base,
                is_set ? "" : "/.config", what, user ? "-" : "",
                user ? user : "");
  return n > 0 && n < LOGIN_PATH_BYTES;
}

/* Open the folder of what is at this path, whose name there is put into name.  Folders
 * that are missing are made, readable for nobody else.
 */
static int
login_folder (char *path, char name[FOLDER_NAME_BYTES], char *why,
              size_t why_size)
{
  for (char *p = strchr (path + 1, '/'); p; p = strchr (p + 1, '/')) {
    int at;

    if (p[-1] == '/')
      continue;
    *p = '\0';
    at = folder_find (path, name, why, why_size);
    *p = '/';
    if (at == -1)
      return -1;
    mkdirat (at, name, 0700);
    close (at);
  }
  return folder_find (path, name, why, why_size);
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

/* Its secret and name for our weftd; both NULL where there is none. */
static void
login_read (const struct ctl *ctl, const char *what, const char *user,
            char **secret, char **name)
{
  char path[LOGIN_PATH_BYTES], *text = NULL;
  size_t first;
  mode_t mode;

  *secret = *name = NULL;
  if (login_path (what, user, path) &&
      (text = read_small (path, &mode)) != NULL) {
    first = strcspn (text, "\n");
    if (text[first] == '\n')
      *name = login_name (ctl, text + first + 1);
    if (*name)
      *secret = strndup (text, first);
  }
  config_secret_free (text);
}

int
config_token (const struct ctl *ctl, char **token)
{
  char *name;

  if (ctl->token_file)
    return config_secret_read (ctl->token_file, token);
  login_read (ctl, CONFIG_TOKEN, NULL, token, &name);
  free (name);
  return EXIT_OK;
}

char *
config_login_name (const struct ctl *ctl)
{
  char *token, *name;

  login_read (ctl, CONFIG_TOKEN, NULL, &token, &name);
  config_secret_free (token);
  return name;
}

char *
config_device (const struct ctl *ctl, const char *user)
{
  char *secret, *had;

  login_read (ctl, CONFIG_DEVICE, user, &secret, &had);
  free (had);
  return secret;
}

/* The same of what a login leaves behind; -1: said why not. */
static int
login_open (const char *what, const char *user, char path[LOGIN_PATH_BYTES],
            char name[FOLDER_NAME_BYTES])
{
  char why[512];
  int folder;

  if (!login_path (what, user, path)) {
    ctl_error ("there is no home directory to keep a token in: set HOME");
    return -1;
  }
  folder = login_folder (path, name, why, sizeof why);
  if (folder == -1)
    ctl_error ("%s: the %s cannot be kept: %s; or set HOME to this user's "
               "home directory",
               path, what, why);
  return folder;
}

int
config_login_check (void)
{
  char path[LOGIN_PATH_BYTES], name[FOLDER_NAME_BYTES];
  int folder = login_open (CONFIG_TOKEN, NULL, path, name);

  if (folder != -1)
    close (folder);
  return folder == -1 ? EXIT_FAILED : EXIT_OK;
}

int
config_login_save (const struct ctl *ctl, const char *what, const char *name,
                   const char *secret)
{
  char path[LOGIN_PATH_BYTES], file[FOLDER_NAME_BYTES];
  char temporary[FOLDER_NAME_BYTES + 16];
  int fd, folder = login_open (
            what, strcmp (what, CONFIG_DEVICE) == 0 ? name : NULL, path, file);
  bool ok = false;
  FILE *f;

  if (folder == -1)
    return EXIT_FAILED;
  snprintf (temporary, sizeof temporary, "%.230s.%d", file, (int) getpid ());
  fd = folder_create (folder, temporary, 0600);
  if (fd != -1 && (f = fdopen (fd, "w")) != NULL) {
    ok = fprintf (f, "%s\n# %s %s\n", secret, name, ctl->admin_url) > 0 &&
         fflush (f) == 0 && fsync (fd) == 0;
    ok = fclose (f) == 0 && ok &&
         renameat (folder, temporary, folder, file) == 0;
  }
  else if (fd != -1)
    close (fd);
  if (!ok) {
    ctl_error ("%s: %s; the %s could not be kept", path, strerror (errno),
               what);
    if (fd != -1)
      unlinkat (folder, temporary, 0);
  }
  close (folder);
  return ok ? EXIT_OK : EXIT_FAILED;
}

void
config_login_remove (void)
{
  char path[LOGIN_PATH_BYTES], name[FOLDER_NAME_BYTES], why[512];
  int folder = login_path (CONFIG_TOKEN, NULL, path)
                 ? folder_find (path, name, why, sizeof why)
                 : -1;

  if (folder == -1)
    return;
  unlinkat (folder, name, 0);
  close (folder);
}
