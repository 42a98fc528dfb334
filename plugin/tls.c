/* tls.c: stands between GnuTLS and who calls it here: nbdkit, for the connections of
 * clients, and libnbd, for ours to members.
 *
 * nbdkit reads its certificates, its CA and the CRL once, when it is started, and tells
 * a plugin nothing of the peer's certificate (its name from 1.42 on, but no serial
 * number).  A member, or an array that serves others, must go on for years while
 * certificates live for days.  So seven functions are ours first (calls.c):
 *
 *   gnutls_init              a session gets a struct seen
 *   gnutls_priority_set_direct
 *                            TLS 1.2 at least: nbdkit and libnbd say "NORMAL", which
 *                            takes 1.0, too
 *   gnutls_credentials_set   a server's session gets what is in the folder now, as
 *                            libnbd does it for a client's by itself
 *   gnutls_handshake         who has a revoked certificate is refused
 *   gnutls_record_recv       and later is heard no more: what it asks for, as a client,
 *                            is not done, and what it answers, as a member, is not
 *                            believed
 *   gnutls_bye               a server does not wait until its client closes, too: who is
 *                            refused may never do that
 *   gnutls_deinit            it is forgotten
 *
 * and gnutls_server_name_set of libnbd: it gives no address as a name.
 *
 * A certificate is known by its serial number: these are 126 random bits, also where one
 * CA takes another's place, and a CA signs no other.
 */

#include <config.h>

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <bsd/sys/queue.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/name.h"
#include "calls.h"
#include "tls.h"

/* How often the folder may change while it is read. */
#define LOAD_TRIES 5

struct serial {
  unsigned char data[32];
  size_t bytes;
};

/* The folder's files, as they were at one time.  Sessions share what was read of them:
 * it is read again when a file is another one, or was written.
 */
static const char *const names[] = { "ca-cert.pem", "server-cert.pem",
                                     "server-key.pem" };
#define FILES (sizeof names / sizeof names[0])

struct stamp {
  dev_t device;
  ino_t inode;
  off_t bytes;
  struct timespec changed;
};

struct own {
  gnutls_certificate_credentials_t credentials;
  struct stamp stamp[FILES];
  unsigned users; /* sessions; and `newest`, which new ones get */
};

/* Whom a session speaks with. */
struct seen {
  LIST_ENTRY (seen) link;
  gnutls_session_t session;
  bool server;                   /* we are the server */
  bool closing;                  /* its socket may be another's by now */
  struct own *own;               /* NULL: nbdkit's */
  struct serial serial;          /* of no bytes: not known (yet) */
  char name[NAME_BYTES_MAX + 1]; /* of its certificate; "": as above */
  atomic_bool revoked;
};

/* Of what follows, and of their members; held for no I/O. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD (, seen) seen = LIST_HEAD_INITIALIZER (seen);
static struct serial *revoked;
static size_t revoked_count;
static struct own *newest;    /* NULL: none yet */
static char folder[PATH_MAX]; /* "": not said */
static bool works;            /* nbdkit and libnbd call us */

static void
give_back (struct own *o)
{
  bool last;

  if (o == NULL)
    return;
  pthread_mutex_lock (&lock);
  last = --o->users == 0;
  pthread_mutex_unlock (&lock);
  if (!last)
    return;
  gnutls_certificate_free_credentials (o->credentials);
  free (o);
}

/* The client of this thread's connection: nbdkit's handshake with it, and its opening of
 * an export, are by the thread that the connection has to itself.
 */
static _Thread_local struct seen *client;

/* ---- What is revoked. ---- */

/* With the lock held. */
static bool
is_revoked (const struct serial *s)
{
  for (size_t i = 0; i < revoked_count; i++)
    if (s->bytes == revoked[i].bytes &&
        memcmp (s->data, revoked[i].data, s->bytes) == 0)
      return true;
  return false;
}

/* Add those of one CRL to the list; false: out of memory, or it is damaged. */
static bool
add_crl (gnutls_x509_crl_t crl, struct serial **list, size_t *count)
{
  int n = gnutls_x509_crl_get_crt_count (crl);
  struct serial *longer;

  if (n < 0)
    return false;
  longer = realloc (*list, (*count + (size_t) n + 1) * sizeof *longer);
  if (longer == NULL)
    return false;
  *list = longer;
  for (int i = 0; i < n; i++) {
    struct serial *s = &longer[*count];

    s->bytes = sizeof s->data;
    if (gnutls_x509_crl_get_crt_serial (crl, (unsigned) i, s->data, &s->bytes,
                                        NULL) < 0)
      return false;
    ++*count;
  }
  return true;
}

static bool
read_list (const gnutls_datum_t *pem, struct serial **list, size_t *count)
{
  gnutls_x509_crl_t *crls;
  unsigned n;
  bool fine = true;

  *list = NULL;
  *count = 0;
  if (gnutls_x509_crl_list_import2 (&crls, &n, pem, GNUTLS_X509_FMT_PEM, 0) < 0)
    return false;
  for (unsigned i = 0; i < n; i++) {
    fine = fine && add_crl (crls[i], list, count);
    gnutls_x509_crl_deinit (crls[i]);
  }
  gnutls_free (crls);
  if (!fine)
    free (*list);
  return fine;
}

/* A client that says nothing more would be waited for.  With the lock held: nbdkit closes
 * the socket after our_bye alone.
 */
static void
cut (const struct seen *p)
{
  int in, out;

  if (!p->server || p->closing)
    return;
  gnutls_transport_get_int2 (p->session, &in, &out);
  shutdown (in, SHUT_RDWR);
}

static int
take_list (const gnutls_datum_t *pem)
{
  struct serial *list, *old;
  struct seen *p;
  size_t count;
  int ended = 0;

  if (!read_list (pem, &list, &count))
    return -1;
  pthread_mutex_lock (&lock);
  old = revoked;
  revoked = list;
  revoked_count = count;
  LIST_FOREACH (p, &seen, link)
    if (!atomic_load (&p->revoked) && p->serial.bytes > 0 &&
        is_revoked (&p->serial)) {
      atomic_store (&p->revoked, true);
      cut (p);
      ended++;
    }
  pthread_mutex_unlock (&lock);
  free (old);
  return ended;
}

void
tls_end (void)
{
  struct own *own;

  pthread_mutex_lock (&lock);
  free (revoked);
  revoked = NULL;
  revoked_count = 0;
  own = newest;
  newest = NULL;
  pthread_mutex_unlock (&lock);
  give_back (own);
}

int
tls_revoked (const char *pem)
{
  const gnutls_datum_t data = { (unsigned char *) pem,
                                (unsigned) strlen (pem) };

  return take_list (&data);
}

void
tls_folder (const char *path)
{
  char file[PATH_MAX + 16];
  gnutls_datum_t data;

  snprintf (folder, sizeof folder, "%s", path);
  snprintf (file, sizeof file, "%s/ca-crl.pem", folder);
  if (gnutls_load_file (file, &data) == 0) {
    take_list (&data);
    gnutls_free (data.data);
  }
}

/* ---- A server's certificates. ---- */

static int
load_folder (const char *dir, gnutls_certificate_credentials_t *own)
{
  char file[FILES][PATH_MAX + 16];
  int r = gnutls_certificate_allocate_credentials (own);

  if (r < 0)
    return r;
  for (size_t i = 0; i < FILES; i++)
    snprintf (file[i], sizeof file[i], "%s/%s", dir, names[i]);
  r = gnutls_certificate_set_x509_trust_file (*own, file[0],
                                              GNUTLS_X509_FMT_PEM);
  if (r == 0)
    r = GNUTLS_E_NO_CERTIFICATE_FOUND;
  if (r > 0)
    r = gnutls_certificate_set_x509_key_file (*own, file[1], file[2],
                                              GNUTLS_X509_FMT_PEM);
  if (r >= 0)
    r = gnutls_certificate_set_known_dh_params (*own, GNUTLS_SEC_PARAM_MEDIUM);
  if (r < 0)
    gnutls_certificate_free_credentials (*own);
  return r < 0 ? r : 0;
}

/* The folder is a link that is renamed to another one, and the old one is removed: so
 * all of it is read from where it led at first.
 */
static int
load (gnutls_certificate_credentials_t *own)
{
  char dir[PATH_MAX];
  int r = GNUTLS_E_FILE_ERROR;

  for (int i = 0; i < LOAD_TRIES && r < 0; i++)
    r = realpath (folder, dir) ? load_folder (dir, own) : GNUTLS_E_FILE_ERROR;
  return r;
}

static bool
look (struct stamp stamp[FILES])
{
  char file[PATH_MAX + 16];
  struct stat st;

  for (size_t i = 0; i < FILES; i++) {
    snprintf (file, sizeof file, "%s/%s", folder, names[i]);
    if (stat (file, &st) == -1)
      return false;
    stamp[i].device = st.st_dev;
    stamp[i].inode = st.st_ino;
    stamp[i].bytes = st.st_size;
    stamp[i].changed = st.st_ctim;
  }
  return true;
}

/* What new sessions show, of one user more; NULL: there is none.  *r: why the folder can't
 * be read: what it had last goes on to count.
 */
static struct own *
take (int *r)
{
  struct own *o = calloc (1, sizeof *o), *old;

  *r = o ? 0 : GNUTLS_E_MEMORY_ERROR;
  if (o == NULL)
    return NULL;
  /* Before it is read: what changes meanwhile is read by the next one. */
  if (look (o->stamp)) {
    pthread_mutex_lock (&lock);
    old = newest && memcmp (newest->stamp, o->stamp, sizeof o->stamp) == 0
            ? newest
            : NULL;
    if (old)
      old->users++;
    pthread_mutex_unlock (&lock);
    if (old) {
      free (o);
      return old;
    }
  }
  *r = load (&o->credentials);
  if (*r < 0) {
    free (o);
    pthread_mutex_lock (&lock);
    old = newest;
    if (old)
      old->users++;
    pthread_mutex_unlock (&lock);
    return old;
  }
  o->users = 2;
  pthread_mutex_lock (&lock);
  old = newest;
  newest = o;
  pthread_mutex_unlock (&lock);
  give_back (old);
  return o;
}

/* ---- In GnuTLS's place. ---- */

static int
our_init (gnutls_session_t *session, unsigned flags)
{
  struct seen *p = calloc (1, sizeof *p);
  int r;

  if (p == NULL)
    return GNUTLS_E_MEMORY_ERROR;
  r = gnutls_init (session, flags);
  if (r < 0) {
    free (p);
    return r;
  }
  p->session = *session;
  p->server = flags & GNUTLS_SERVER;
  gnutls_session_set_ptr (*session, p);
  pthread_mutex_lock (&lock);
  LIST_INSERT_HEAD (&seen, p, link);
  pthread_mutex_unlock (&lock);
  return r;
}

static void
our_deinit (gnutls_session_t session)
{
  struct seen *p = gnutls_session_get_ptr (session);

  pthread_mutex_lock (&lock);
  LIST_REMOVE (p, link);
  pthread_mutex_unlock (&lock);
  if (client == p)
    client = NULL;
  gnutls_deinit (session);
  give_back (p->own);
  free (p);
}

/* Once, until it can be read again. */
static void
say_load (int r)
{
  static atomic_bool said;

  if (r == 0)
    atomic_store (&said, false);
  else if (!atomic_exchange (&said, true))
    nbdkit_error ("the certificates in %s can't be read: %s; clients are shown "
                  "those that were there before",
                  folder, gnutls_strerror (r));
}

/* Before the folder could be read for the first time there are nbdkit's own. */
static int
our_credentials_set (gnutls_session_t session, gnutls_credentials_type_t type,
                     void *credentials)
{
  struct seen *p = gnutls_session_get_ptr (session);
  int r;

  if (p->server && folder[0] && type == GNUTLS_CRD_CERTIFICATE && !p->own) {
    p->own = take (&r);
    say_load (r);
    if (p->own)
      credentials = p->own->credentials;
  }
  return gnutls_credentials_set (session, type, credentials);
}

static int
our_priority_set_direct (gnutls_session_t session, const char *priorities,
                         const char **wrong)
{
  char text[1024];
  int n = snprintf (text, sizeof text, "%s:-VERS-TLS1.0:-VERS-TLS1.1",
                    priorities);

  if (wrong)
    *wrong = priorities;
  return n < (int) sizeof text
           ? gnutls_priority_set_direct (session, text, NULL)
           : GNUTLS_E_INVALID_REQUEST;
}

/* False: it showed a certificate that can't be read.  One without a name that a node may
 * have has none.
 */
static bool
read_certificate (gnutls_session_t session, struct serial *s,
                  char name[NAME_BYTES_MAX + 1])
{
  size_t bytes = NAME_BYTES_MAX + 1;
  unsigned count = 0;
  const gnutls_datum_t *list = gnutls_certificate_get_peers (session, &count);
  gnutls_x509_crt_t cert;
  bool fine;

  if (list == NULL || count == 0)
    return true;
  if (gnutls_x509_crt_init (&cert) < 0)
    return false;
  s->bytes = sizeof s->data;
  fine = gnutls_x509_crt_import (cert, &list[0], GNUTLS_X509_FMT_DER) == 0 &&
         gnutls_x509_crt_get_serial (cert, s->data, &s->bytes) == 0;
  if (!fine ||
      gnutls_x509_crt_get_dn_by_oid (cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0,
                                     name, &bytes) < 0 ||
      bytes != strlen (name) || !name_valid (name))
    name[0] = '\0';
  gnutls_x509_crt_deinit (cert);
  return fine;
}

static int
our_handshake (gnutls_session_t session)
{
  struct seen *p = gnutls_session_get_ptr (session);
  struct serial s = { .bytes = 0 };
  char name[NAME_BYTES_MAX + 1] = "";
  bool bad;
  int r = gnutls_handshake (session);

  if (r != 0 || gnutls_auth_get_type (session) != GNUTLS_CRD_CERTIFICATE)
    return r;
  bad = !read_certificate (session, &s, name);
  pthread_mutex_lock (&lock);
  p->serial = s;
  memcpy (p->name, name, sizeof name);
  bad = bad || (s.bytes > 0 && is_revoked (&s));
  pthread_mutex_unlock (&lock);
  if (p->server && !bad)
    client = p;
  return bad ? GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR : r;
}

static ssize_t
our_record_recv (gnutls_session_t session, void *data, size_t bytes)
{
  struct seen *p = gnutls_session_get_ptr (session);
  ssize_t r = gnutls_record_recv (session, data, bytes);

  /* After it has waited. */
  return atomic_load_explicit (&p->revoked, memory_order_relaxed)
           ? GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR
           : r;
}

/* Only then is it closing: while it waits for room to send, cut () ends it. */
static int
our_bye (gnutls_session_t session, gnutls_close_request_t how)
{
  struct seen *p = gnutls_session_get_ptr (session);
  int r = gnutls_bye (session, GNUTLS_SHUT_WR);

  if (how == GNUTLS_SHUT_RDWR && r != GNUTLS_E_AGAIN &&
      r != GNUTLS_E_INTERRUPTED) {
    pthread_mutex_lock (&lock);
    p->closing = true;
    pthread_mutex_unlock (&lock);
  }
  return r;
}

/* libnbd names the server by whatever its URI has.  An address is no name for that (RFC 6066,
 * 3), and a server by GnuTLS refuses who gives one of IPv6.
 */
static int
our_server_name_set (gnutls_session_t session, gnutls_server_name_type_t type,
                     const void *name, size_t bytes)
{
  return memchr (name, ':', bytes)
           ? 0
           : gnutls_server_name_set (session, type, name, bytes);
}

const char *
tls_client (void)
{
  return client && client->name[0] ? client->name : NULL;
}

void
tls_begin (void)
{
  static const struct call calls[] = {
    { "gnutls_init", our_init },
    { "gnutls_deinit", our_deinit },
    { "gnutls_priority_set_direct", our_priority_set_direct },
    { "gnutls_credentials_set", our_credentials_set },
    { "gnutls_handshake", our_handshake },
    { "gnutls_record_recv", our_record_recv },
    { "gnutls_bye", our_bye },
    { NULL },
  };
  static const struct call names_given[] = {
    { "gnutls_server_name_set", our_server_name_set },
    { NULL },
  };
  bool nbdkit = calls_replace ("", calls);

  works = calls_replace ("/libnbd.so", calls) && nbdkit;
  calls_replace ("/libnbd.so", names_given);
}

bool
tls_works (void)
{
  return works;
}
