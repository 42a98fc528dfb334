/* restore.c: see restore.h.
 *
 * The new state is made in a folder of its own, restore.new, and is complete and on the disk
 * before anything else changes.  Then
 *
 *   1. the file `restoring` is made: from now on no weftd starts on the directory (store.c)
 *   2. what is there is moved into a folder before-restore-TIME
 *   3. the new files are moved into their places, the database last
 *   4. `restoring` is removed
 *
 * each durable before the next.  A restore that was broken off before 1 has changed nothing;
 * later it is run once more.  Nothing is ever removed but what a restore has made itself.
 *
 * The CA stays the one that is there if it is younger than the one of the backup: it has
 * taken the place of that since, and nodes trust it.
 *
 * The database is marked (cluster_identity.restore): when weftd starts, what members know
 * better is taken from them (core/cluster/inputs/cluster-restore.c).
 */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <openssl/crypto.h>

#include "alloc.h"
#include "pki/ca.h"
#include "common/backup.h"
#include "common/refuse.h"
#include "log.h"
#include "restore.h"
#include "store/store.h"

#define NEW "restore.new"
#define KEY "ca-key.pem"
#define CERTIFICATE "ca-cert.pem"
#define PATH_BYTES 4200

struct work {
  const struct restore *r;
  char new[PATH_BYTES - 64]; /* the folder of the new state */
  char *text;                /* of a backup, as JSON; NULL: ... */
  uint8_t *database;         /* ... the file is a copy of a database */
  size_t bytes;
  uint64_t made_ms;
  bool
    other_ca; /* the CA of the backup takes the place of the one that is there */
  char why[1024];
};

/* ---- Files. ---- */

static int
fail (struct work *w, const char *what, const char *path)
{
  return refuse (w->why, sizeof w->why, "cannot %s %s: %s", what, path,
                 strerror (errno));
}

static void
path_of (char path[PATH_BYTES], const char *dir, const char *name)
{
  snprintf (path, PATH_BYTES, "%.4000s/%s", dir, name);
}

static bool
is_there (const char *dir, const char *name)
{
  char path[PATH_BYTES];

  path_of (path, dir, name);
  return access (path, F_OK) == 0;
}

static int
sync_folder (struct work *w, const char *dir)
{
  int fd = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

  if (fd == -1 || fsync (fd) == -1)
    r = fail (w, "make durable", dir);
  if (fd != -1)
    close (fd);
  return r;
}

static int
write_file (struct work *w, const char *dir, const char *name,
            const void *bytes, size_t count)
{
  char path[PATH_BYTES];
  int fd, r = 0;

  path_of (path, dir, name);
  fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd == -1)
    return fail (w, "write", path);
  for (size_t done = 0; r == 0 && done < count;) {
    ssize_t n = write (fd, (const char *) bytes + done, count - done);

    if (n == -1 && errno != EINTR)
      r = fail (w, "write", path);
    done += n > 0 ? (size_t) n : 0;
  }
  if (r == 0 && fsync (fd) == -1)
    r = fail (w, "make durable", path);
  close (fd);
  return r;
}

static uint8_t *
read_file (struct work *w, int fd, const char *name, size_t *bytes)
{
  size_t room = 1 << 16;
  uint8_t *data = alloc_bytes (room);

  *bytes = 0;
  for (;;) {
    ssize_t n = read (fd, data + *bytes, room - *bytes);

    if (n == -1 && errno == EINTR)
      continue;
    if (n == -1) {
      fail (w, "read", name);
      free (data);
      return NULL;
    }
    if (n == 0)
      return data;
    *bytes += (size_t) n;
    if (*bytes > BACKUP_BYTES_MAX) {
      refuse (w->why, sizeof w->why,
              "cannot restore from %s: it is too large to be a backup; name a "
              "file that weftctl backup has made",
              name);
      free (data);
      return NULL;
    }
    if (*bytes == room)
      data = alloc_list (data, room *= 2, 1);
  }
}

/* Remove a folder of ours, and the files in it. */
static int
remove_folder (struct work *w, const char *dir)
{
  DIR *d = opendir (dir);
  struct dirent *e;
  int r = 0;

  if (d == NULL)
    return errno == ENOENT ? 0 : fail (w, "read", dir);
  while (r == 0 && (e = readdir (d)) != NULL)
    if (strcmp (e->d_name, ".") != 0 && strcmp (e->d_name, "..") != 0 &&
        unlinkat (dirfd (d), e->d_name, 0) == -1)
      r = fail (w, "remove what a former restore has left in", dir);
  closedir (d);
  return r == 0 && rmdir (dir) == -1 ? fail (w, "remove", dir) : r;
}

/* ---- The backup. ---- */

static char *
ask_passphrase (void)
{
  struct termios shown, hidden;
  char *line = NULL;
  size_t size = 0;
  FILE *tty = fopen ("/dev/tty", "r+e");
  bool fine;

  if (tty == NULL || tcgetattr (fileno (tty), &shown) == -1) {
    if (tty)
      fclose (tty);
    return NULL;
  }
  hidden = shown;
  hidden.c_lflag &= ~(tcflag_t) ECHO;
  tcsetattr (fileno (tty), TCSAFLUSH, &hidden);
  fputs ("The passphrase of the backup: ", tty);
  fflush (tty);
  fine = getline (&line, &size, tty) > 0;
  tcsetattr (fileno (tty), TCSAFLUSH, &shown);
  fputc ('\n', tty);
  fclose (tty);
  if (fine)
    return line;
  free (line);
  return NULL;
}

/* NULL: said why not. */
static char *
take_passphrase (struct work *w)
{
  const char *file = w->r->passphrase_file;
  char *line = NULL;
  size_t size = 0;
  FILE *f;

  if (file == NULL) {
    if ((line = ask_passphrase ()) == NULL)
      refuse (w->why, sizeof w->why,
              "cannot restore from %s: it is encrypted, and there is no "
              "terminal to ask for its passphrase: give --passphrase-file FILE",
              w->r->file);
  }
  else {
    f = strcmp (file, "-") == 0 ? stdin : fopen (file, "re");
    if (f == NULL || getline (&line, &size, f) == -1) {
      refuse (w->why, sizeof w->why,
              "cannot read a passphrase in the first line of %s: %s", file,
              f ? "it is empty" : strerror (errno));
      free (line);
      line = NULL;
    }
    if (f && f != stdin)
      fclose (f);
  }
  if (line)
    line[strcspn (line, "\r\n")] = '\0';
  return line;
}

static int
read_backup (struct work *w)
{
  const char *name = w->r->file;
  int fd = open (name, O_RDONLY | O_CLOEXEC);
  char *passphrase = NULL, why[512];
  struct stat st;
  uint8_t *data;

  if (fd == -1 || fstat (fd, &st) == -1) {
    fail (w, "read", name);
    if (fd != -1)
      close (fd);
    return -1;
  }
  data = read_file (w, fd, name, &w->bytes);
  close (fd);
  if (data == NULL)
    return -1;
  if (store_is_database (data, w->bytes)) {
    if (w->r->passphrase_file) {
      free (data);
      return refuse (w->why, sizeof w->why,
                     "cannot restore from %s: it is a copy of a database, and "
                     "not encrypted; if you trust it, restore it without a "
                     "passphrase",
                     name);
    }
    w->database = data;
    w->made_ms = (uint64_t) st.st_mtime * 1000;
    return 0;
  }
  if ((w->r->passphrase_file || backup_encrypted (data, w->bytes)) &&
      (passphrase = take_passphrase (w)) == NULL) {
    free (data);
    return -1;
  }
  w->text = backup_unpack (data, w->bytes, passphrase, why, sizeof why);
  if (w->text == NULL)
    refuse (w->why, sizeof w->why, "cannot restore from %s: %s", name, why);
  if (passphrase)
    OPENSSL_cleanse (passphrase, strlen (passphrase));
  free (passphrase);
  free (data);
  return w->text ? 0 : -1;
}

/* ---- The new state. ---- */

/* Is the CA that is there another one than this, and younger? */
static bool
ca_is_older (struct work *w, const char *key, const char *certificate)
{
  struct ca *ours = NULL, *theirs = ca_read (key, certificate);
  struct ca_networks none = { .count = 0 };
  uint64_t since = 0, other = 0, until;
  bool younger;

  if (is_there (w->r->state, KEY))
    ours = ca_open (w->r->state, &none, w->why, sizeof w->why);
  if (ours)
    ca_times (ours, &since, &until);
  if (theirs)
    ca_times (theirs, &other, &until);
  younger = ours && theirs && since >= other &&
            strcmp (ca_fingerprint (ours), ca_fingerprint (theirs)) != 0;
  ca_free (ours);
  ca_free (theirs);
  return younger;
}

/* The CA's key and certificate, as ca_write leaves them. */
static int
put_ca (struct work *w, const json_t *backup)
{
  const json_t *ca = json_object_get (backup, "ca");
  const char *key = json_string_value (json_object_get (ca, "key"));
  const char *certificate = json_string_value (
    json_object_get (ca, "certificate"));
  struct ca *made = key && certificate ? ca_read (key, certificate) : NULL;
  int r;

  if (made == NULL)
    return refuse (w->why, sizeof w->why,
                   "cannot restore from %s: the CA in it makes no sense",
                   w->r->file);
  if (ca_is_older (w, key, certificate)) {
    log_line (CLUSTER_WARNING,
              "the CA in %s is younger than the one of the backup, and stays",
              w->r->state);
    ca_free (made);
    return 0;
  }
  w->other_ca = true;
  r = ca_write (made, w->new, w->why, sizeof w->why);
  ca_free (made);
  return r == 0 ? 0 : -1;
}

/* The identity says that this is a backup, and secrets that may have been taken back since
 * go.
 */
static int
take_record (struct work *w, struct store_txn *t, const char *kind,
             const char *key, const json_t *record)
{
  static const char *const gone[] = { "login", "token", "node-token", "device",
                                      "idempotency" };
  json_t *copy;

  for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
    if (strcmp (kind, gone[i]) == 0) {
      if (w->database)
        store_txn_put (t, kind, key, NULL);
      return 0;
    }
  if (strcmp (kind, "cluster") != 0) {
    if (w->text)
      store_txn_put (t, kind, key, json_deep_copy (record));
    return 0;
  }
  copy = json_deep_copy (record);
  json_object_set_new (copy, "restore", json_true ());
  json_object_set_new (copy, "backup_ms",
                       json_integer ((json_int_t) w->made_ms));
  store_txn_put (t, kind, key, copy);
  return 1;
}

struct loading {
  struct work *work;
  struct store_txn *txn;
  int identities;
};

static int
load_record (void *opaque, const char *kind, const char *key, const char *json,
             char *why, size_t why_size)
{
  struct loading *l = opaque;
  json_t *record = json_loads (json, 0, NULL);

  if (record == NULL)
    return refuse (why, why_size, "it is no JSON");
  l->identities += take_record (l->work, l->txn, kind, key, record);
  json_decref (record);
  return 0;
}

/* The records of a backup, or of a copy of a database. */
static int
take_records (struct work *w, struct store *store, const json_t *backup,
              struct loading *l)
{
  const json_t *records = json_object_get (backup, "records"), *one;
  const char *kind, *key;
  size_t i;

  if (w->database)
    return store_load (store, load_record, l, w->why, sizeof w->why);
  json_array_foreach (records, i, one) {
    kind = json_string_value (json_array_get (one, 0));
    key = json_string_value (json_array_get (one, 1));
    if (kind == NULL || key == NULL || strlen (kind) >= 16 ||
        strlen (key) >= STORE_KEY_BYTES ||
        !json_is_object (json_array_get (one, 2)))
      return refuse (w->why, sizeof w->why,
                     "cannot restore from %s: record %zu makes no sense",
                     w->r->file, i);
    l->identities += take_record (w, l->txn, kind, key,
                                  json_array_get (one, 2));
  }
  return 0;
}

static int
put_database (struct work *w, const json_t *backup)
{
  struct loading l = { .work = w, .txn = store_txn_new () };
  char why[sizeof w->why] = "";
  struct store *store;
  int r = -1;

  if (w->database &&
      write_file (w, w->new, STORE_FILE, w->database, w->bytes) == -1) {
    store_txn_free (l.txn);
    return -1;
  }
  store = store_open (w->new, why, sizeof why);
  if (store == NULL)
    refuse (w->why, sizeof w->why, "cannot restore from %s: %.900s", w->r->file,
            why);
  if (store && take_records (w, store, backup, &l) == 0) {
    if (l.identities == 1) {
      r = store_fill (store, l.txn, w->why, sizeof w->why);
      l.txn = NULL;
    }
    else
      refuse (w->why, sizeof w->why,
              "cannot restore from %s: it does not say which cluster it is of",
              w->r->file);
  }
  store_txn_free (l.txn);
  store_close (store);
  return r;
}

static int
make_new (struct work *w)
{
  json_t *backup = w->text ? json_loads (w->text, JSON_REJECT_DUPLICATES, NULL)
                           : NULL;
  char path[PATH_BYTES];
  int r;

  if (w->text) {
    if (backup == NULL)
      return refuse (w->why, sizeof w->why,
                     "cannot restore from %s: it is no JSON", w->r->file);
    w->made_ms = (uint64_t) json_integer_value (
      json_object_get (backup, "made_ms"));
  }
  r = remove_folder (w, w->new);
  if (r == 0 && mkdir (w->new, 0700) == -1)
    r = fail (w, "make", w->new);
  if (r == 0 && backup)
    r = put_ca (w, backup);
  if (r == 0)
    r = put_database (w, backup);
  json_decref (backup);
  if (r == 0) {
    path_of (path, w->new, "weftd.lock");
    unlink (path);
    r = sync_folder (w, w->new);
  }
  return r == 0 ? sync_folder (w, w->r->state) : -1;
}

/* ---- In its place. ---- */

static int
move (struct work *w, const char *from_dir, const char *to_dir,
      const char *name)
{
  char from[PATH_BYTES], to[PATH_BYTES];

  path_of (from, from_dir, name);
  path_of (to, to_dir, name);
  if (rename (from, to) == -1 && errno != ENOENT)
    return fail (w, "move", from);
  return 0;
}

/* The present state is kept. */
static int
set_aside (struct work *w)
{
  static const char *const files[] = { STORE_FILES };
  char aside[PATH_BYTES - 64], name[64];
  time_t now = time (NULL);
  struct tm tm;

  strftime (name, sizeof name, "before-restore-%Y%m%dT%H%M%S",
            gmtime_r (&now, &tm));
  snprintf (aside, sizeof aside, "%.4000s/%s", w->r->state, name);
  for (unsigned i = 2; mkdir (aside, 0700) == -1; i++) {
    if (errno != EEXIST)
      return fail (w, "make", aside);
    snprintf (aside, sizeof aside, "%.4000s/%s-%u", w->r->state, name, i);
  }
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    if (move (w, w->r->state, aside, files[i]) == -1)
      return -1;
  if (w->other_ca && (move (w, w->r->state, aside, KEY) == -1 ||
                      move (w, w->r->state, aside, CERTIFICATE) == -1))
    return -1;
  if (sync_folder (w, aside) == -1)
    return -1;
  if (rmdir (aside) == -1) /* else there was nothing */
    log_line (CLUSTER_INFO, "the former state is kept in %s", aside);
  return sync_folder (w, w->r->state);
}

static int
put_in_place (struct work *w)
{
  const char *state = w->r->state;
  char marker[PATH_BYTES];

  path_of (marker, state, "restoring");
  if (write_file (w, state, "restoring", "", 0) == -1 ||
      sync_folder (w, state) == -1 || set_aside (w) == -1)
    return -1;
  if (w->other_ca && (move (w, w->new, state, KEY) == -1 ||
                      move (w, w->new, state, CERTIFICATE) == -1))
    return -1;
  if (move (w, w->new, state, STORE_FILE) == -1 || sync_folder (w, state) == -1)
    return -1;
  if (unlink (marker) == -1)
    return fail (w, "remove", marker);
  if (sync_folder (w, state) == -1)
    return -1;
  return remove_folder (w, w->new);
}

/* As root: the files must belong to the user who owns the directory. */
static int
become_owner (struct work *w)
{
  struct stat st;

  if (geteuid () != 0 || stat (w->r->state, &st) == -1 || st.st_uid == 0)
    return 0;
  if (setgroups (0, NULL) == -1 || setgid (st.st_gid) == -1 ||
      setuid (st.st_uid) == -1)
    return fail (w, "become the user that owns", w->r->state);
  return 0;
}

static int
run (struct work *w)
{
  int lock, r;

  if (read_backup (w) == -1 || become_owner (w) == -1)
    return -1;
  lock = store_lock (w->r->state, w->why, sizeof w->why);
  if (lock == -1)
    return -1;
  if (is_there (w->r->state, STORE_FILE) && !w->r->replace &&
      !is_there (w->r->state, "restoring"))
    r = refuse (w->why, sizeof w->why,
                "there is a state in %s already: --replace puts the backup in "
                "its place, and keeps it in a folder beside",
                w->r->state);
  else
    r = make_new (w) == 0 ? put_in_place (w) : -1;
  close (lock);
  return r;
}

int
restore_run (const struct restore *r)
{
  struct work w = { .r = r };
  mode_t mask = umask (077);
  int result;

  snprintf (w.new, sizeof w.new, "%.4000s/" NEW, r->state);
  result = run (&w);
  if (w.text)
    OPENSSL_cleanse (w.text, strlen (w.text));
  free (w.text);
  free (w.database);
  umask (mask);
  if (result == -1)
    log_line (CLUSTER_ERROR, "%s", w.why);
  else
    log_line (
      CLUSTER_INFO,
      "%s was restored: start weftd; passwords from before are refused, so "
      "make an administrator by weftctl setup NAME --url-file %s/setup-url; "
      "weftctl status shows what weftd waits for; revoke again what was "
      "revoked since the backup was made, then run weftctl revocations confirm",
      r->state, r->state);
  return result == -1 ? EXIT_FAILURE : EXIT_SUCCESS;
}
