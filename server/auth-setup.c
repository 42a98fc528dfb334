/* auth-setup.c: the one-time URL, a login for users who may read weftd's state
 * directory: for the first administrator, after a lost password, and after a
 * restore of an old database.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "alloc.h"
#include "auth-internal.h"
#include "log.h"

void
auth_setup_at (struct auth *a, const char *file, const char *url)
{
  a->setup_file = file;
  snprintf (a->setup_url, sizeof a->setup_url, "%s", url);
}

void
auth_setup_begin (struct auth *a, char secret[AUTH_SECRET_BYTES])
{
  pthread_mutex_lock (&a->lock);
  auth_words_secret_make (secret, a->setup_hash);
  a->setup = true;
  pthread_mutex_unlock (&a->lock);
}

/* Nobody else may read it. */
static int
write_url (const char *path, const char *url, const char *secret)
{
  char *text = alloc_print ("%s/login.html#setup=%s\n", url, secret);
  char *temporary = alloc_print ("%s.new", path);
  size_t n = strlen (text);
  int fd, r;

  unlink (temporary);
  fd = open (temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  r = fd != -1 && write (fd, text, n) == (ssize_t) n &&
          rename (temporary, path) == 0
        ? 0
        : -1;
  if (r == -1) {
    log_line (CLUSTER_ERROR, "cannot write %s: %s", path, strerror (errno));
    unlink (temporary);
  }
  if (fd != -1)
    close (fd);
  OPENSSL_cleanse (text, n);
  free (text);
  free (temporary);
  return r;
}

int
auth_setup_open (struct auth *a)
{
  char secret[AUTH_SECRET_BYTES];
  int r;

  /* Before weftd serves it is too early: weftd asks again then. */
  if (a->no_login || a->setup_file == NULL)
    return 0;
  auth_setup_begin (a, secret);
  r = write_url (a->setup_file, a->setup_url, secret);
  OPENSSL_cleanse (secret, sizeof secret);
  if (r == 0)
    log_line (CLUSTER_INFO,
              "to make an administrator, open the one-time URL that is in %s, "
              "or run weftctl setup NAME --url-file %s",
              a->setup_file, a->setup_file);
  return r;
}

void
auth_setup_end (struct auth *a)
{
  pthread_mutex_lock (&a->lock);
  a->setup = false;
  unlink (a->setup_file);
  pthread_mutex_unlock (&a->lock);
}
