/* cmd-backup.c: a backup of what weftd has stored, and what is confirmed after weftd was
 * restored from one.
 *
 * The file has the CA's key and the keys of all disks: it is ours alone, and encrypted here
 * where a passphrase is given, so weftd never hears that.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/admin.h"
#include "common/backup.h"
#include "common/file.h"
#include "ctl.h"
#include "commands.h"
#include "output.h"

/* The file is there as a whole or not at all. */
static int
write_whole (const char *path, const uint8_t *bytes, size_t count)
{
  char temporary[4096], folder[4096], *slash;
  int fd, at = -1, r = EXIT_FAILED, error = 0;

  if ((size_t) snprintf (temporary, sizeof temporary, "%s.%ld", path,
                         (long) getpid ()) >= sizeof temporary) {
    ctl_error ("%s: this name is too long", path);
    return EXIT_USAGE;
  }
  snprintf (folder, sizeof folder, "%s", path);
  slash = strrchr (folder, '/');
  if (slash)
    slash[slash == folder] = '\0';
  else
    strcpy (folder, ".");
  fd = open (temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             0600);
  if (fd != -1 && (error = file_write (fd, bytes, count, 0, 0)) == 0 &&
      fsync (fd) == 0 && rename (temporary, path) == 0 &&
      (at = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) != -1 &&
      fsync (at) == 0)
    r = EXIT_OK;
  else
    ctl_error ("%s: the backup cannot be written: %s", path,
               strerror (error ? error : errno));
  if (r != EXIT_OK && fd != -1)
    unlink (temporary);
  if (fd != -1)
    close (fd);
  if (at != -1)
    close (at);
  return r;
}

static int
write_backup (const char *path, const json_t *backup, const char *passphrase,
              size_t *bytes)
{
  char *text = json_dumps (backup, JSON_COMPACT);
  uint8_t *file = text ? backup_pack (text, strlen (text), passphrase, bytes)
                       : NULL;
  int r;

  if (text)
    explicit_bzero (text, strlen (text));
  free (text);
  if (file == NULL) {
    ctl_error ("%s: there is no memory for the backup, or it is too large",
               path);
    return EXIT_FAILED;
  }
  r = write_whole (path, file, *bytes);
  explicit_bzero (file, *bytes);
  free (file);
  return r;
}

/* --encrypt asks for it; --passphrase-file has it. */
static int
take_passphrase (const struct args *args, char **passphrase)
{
  *passphrase = NULL;
  if (!args_switch (args, "encrypt") && !args_value (args, "passphrase-file"))
    return EXIT_OK;
  return login_ask_twice (args, "passphrase-file",
                          "Passphrase:", "a passphrase", passphrase);
}

int
cmd_backup (struct ctl *ctl, const struct args *args)
{
  const char *path = args_plain (args, 0);
  char *passphrase;
  json_t *backup = NULL;
  size_t bytes = 0;
  int r = take_passphrase (args, &passphrase);

  if (r == EXIT_OK)
    r = ctl_connect (ctl);
  if (r == EXIT_OK) {
    admin_allow (ctl->admin, BACKUP_BYTES_MAX);
    r = ctl_call (ctl, "POST", "/api/v1/backup", NULL, &backup);
  }
  if (r == EXIT_OK)
    r = write_backup (path, backup, passphrase, &bytes);
  if (r == EXIT_OK && ctl->json)
    printf ("{\"file\": \"%s\", \"bytes\": %zu, \"records\": %zu, "
            "\"encrypted\": %s}\n",
            path, bytes, json_array_size (json_object_get (backup, "records")),
            passphrase ? "true" : "false");
  else if (r == EXIT_OK)
    printf ("%s: %zu records, %zu bytes%s\n", path,
            json_array_size (json_object_get (backup, "records")), bytes,
            passphrase ? ", encrypted"
                       : "; it is not encrypted, and has the CA's key in it");
  config_secret_free (passphrase);
  json_decref (backup);
  return r;
}

int
cmd_revocations_confirm (struct ctl *ctl, const struct args *args)
{
  int r;

  if (!ctl->yes && !ctl->json)
    printf ("  Users, tokens and rights that were removed after weftd's "
            "database was made are\n  valid again from now on, unless you have "
            "removed them again: weftctl node ls,\n  user ls, token ls, "
            "array allow.\n");
  r = ctl_confirm (ctl, "confirm");
  if (r != EXIT_OK)
    return r;
  r = ctl_call (ctl, "POST", "/api/v1/revocations/confirm", NULL, NULL);
  return ctl_say (ctl, r, NULL, "confirmed");
}
