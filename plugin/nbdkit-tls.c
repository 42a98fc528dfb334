/* nbdkit-tls.c: intercepts GnuTLS calls of nbdkit (connections of clients) and
 * libnbd (our connections to members).
 *
 * nbdkit reads its certificates, its CA and the CRL once, at its start, and
 * tells a plugin nothing of the peer's certificate (its name from 1.42 on, but
 * no serial number). A member, or an array that serves others, must run for
 * years while certificates live for days.  So nine functions are intercepted
 * (calls.c):
 *
 *   gnutls_init              gives the session a struct seen
 *   gnutls_priority_set_direct
 *                            TLS 1.2 at least: nbdkit and libnbd say "NORMAL", which
 *                            allows 1.0, too
 *   gnutls_credentials_set   gives a server's session the folder's present files, as
 *                            libnbd does for a client's by itself
 *   gnutls_handshake         refuses a revoked certificate
 *   gnutls_record_recv       refuses to receive once a certificate is revoked: a
 *                            client's requests are not carried out, a member's
 *                            answers are not believed
 *   gnutls_record_send       counts a client's bytes, in both directions (budget.h)
 *   gnutls_record_uncork
 *   gnutls_bye               a server does not wait for its client's close: a refused
 *                            client may never close
 *   gnutls_deinit            frees the struct
 *
 * and gnutls_server_name_set of libnbd, so that it gives no address as a name.
 *
 * A certificate is known by its serial number: these are 126 random bits, also
 * after a change of the CA, and a CA signs no other.
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
#include "budget.h"
#include "calls.h"
#include "nbdkit-tls.h"

/* How often the folder may change while it is read. */
#define LOAD_TRIES 5

/* "disk:" and a UUID, or "array:" and a name; in a certificate it is a URI. */
#define PROCESS_BYTES 72
#define PROCESS_URI "weft:"

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
  bool server;                 /* we are the server */
  bool closing;                /* its socket may be another's by now */
  const struct caller *caller; /* of a server whose client has an export open */
  struct own *own;             /* NULL: nbdkit's */
  struct serial serial;        /* of no bytes: not known (yet) */
  char name[NAME_BYTES_MAX + 1]; /* of its certificate; "": as above */
  char process[PROCESS_BYTES];   /* as of tls_client_process */
  atomic_bool revoked;
};

/* Protects the following variables and their members; not held during I/O. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD (, seen) seen = LIST_HEAD_INITIALIZER (seen);
static struct serial *revoked;
static size_t revoked_count;
static uint64_t revoked_number; /* of that list, ... */
static char *revoked_pem;       /* ... and its text; NULL: there is none */
static struct own *newest;      /* NULL: none yet */
static char folder[PATH_MAX];   /* "": not said */
static bool works;              /* nbdkit and libnbd call us */
static bool counts;             /* nbdkit sends as we know it */

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

/* The process of the server with which this thread made its last handshake as a client. */
static _Thread_local char server_process[PROCESS_BYTES];

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

/* 0: it has none. */
static uint64_t
number_of (gnutls_x509_crl_t crl)
{
  unsigned char data[20];
  size_t bytes = sizeof data;
  uint64_t number = 0;

  if (gnutls_x509_crl_get_number (crl, data, &bytes, NULL) < 0)
    return 0;
  for (size_t i = 0; i < bytes; i++)
    number = number << 8 | data[i];
  return number;
}

/* Add those of one CRL to the list; false: out of memory, or it is damaged. */
static bool
add_crl (gnutls_x509_crl_t crl, struct serial **list, size_t *count,
         uint64_t *number)
{
  int n = gnutls_x509_crl_get_crt_count (crl);
  struct serial *longer;

  if (n < 0)
    return false;
  *number = number_of (crl);
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
read_list (const gnutls_datum_t *pem, struct serial **list, size_t *count,
           uint64_t *number)
{
  gnutls_x509_crl_t *crls;
  unsigned n;
  bool fine = true;

  *list = NULL;
  *count = 0;
  *number = 0;
  if (gnutls_x509_crl_list_import2 (&crls, &n, pem, GNUTLS_X509_FMT_PEM, 0) < 0)
    return false;
  for (unsigned i = 0; i < n; i++) {
    fine = fine && add_crl (crls[i], list, count, number);
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
  char *text, *old_text;
  struct seen *p;
  uint64_t number;
  size_t count;
  int ended = 0;

  if (!read_list (pem, &list, &count, &number))
    return -1;
  text = strndup ((char *) pem->data, pem->size);
  pthread_mutex_lock (&lock);
  if (text == NULL || number < revoked_number) {
    pthread_mutex_unlock (&lock);
    free (list);
    free (text);
    return text ? -2 : -1;
  }
  old = revoked;
  old_text = revoked_pem;
  revoked = list;
  revoked_count = count;
  revoked_number = number;
  revoked_pem = text;
  LIST_FOREACH (p, &seen, link)
    if (!atomic_load (&p->revoked) && p->serial.bytes > 0 &&
        is_revoked (&p->serial)) {
      atomic_store (&p->revoked, true);
      cut (p);
      ended++;
    }
  pthread_mutex_unlock (&lock);
  free (old);
  free (old_text);
  return ended;
}

void
tls_end (void)
{
  struct own *own;

  pthread_mutex_lock (&lock);
  free (revoked);
  free (revoked_pem);
  revoked = NULL;
  revoked_pem = NULL;
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

uint64_t
tls_list_number (void)
{
  uint64_t number;

  pthread_mutex_lock (&lock);
  number = revoked_number;
  pthread_mutex_unlock (&lock);
  return number;
}

char *
tls_list (void)
{
  char *text;

  pthread_mutex_lock (&lock);
  text = revoked_pem ? strdup (revoked_pem) : NULL;
  pthread_mutex_unlock (&lock);
  return text;
}

void
tls_list_read (void)
{
  char file[PATH_MAX + 16];
  gnutls_datum_t data;

  if (folder[0] == '\0')
    return;
  snprintf (file, sizeof file, "%s/ca-crl.pem", folder);
  if (gnutls_load_file (file, &data) == 0) {
    take_list (&data);
    gnutls_free (data.data);
  }
}

void
tls_folder (const char *path)
{
  snprintf (folder, sizeof folder, "%s", path);
  tls_list_read ();
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

/* The certificate for new sessions, with one user more; NULL: there is none.
 * *r: why the folder can't be read: then the last one stays valid.
 */
static struct own *
take (int *r)
{
  struct own *o = calloc (1, sizeof *o), *old;

  *r = o ? 0 : GNUTLS_E_MEMORY_ERROR;
  if (o == NULL)
    return NULL;
  /* Before it is read: the next one reads later changes. */
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

/* Which process the certificate is for: the CA signs one such URI at most. */
static void
read_process (gnutls_x509_crt_t cert, char process[PROCESS_BYTES])
{
  const size_t skip = strlen (PROCESS_URI);
  char name[512];
  size_t bytes;
  int type = 0;

  process[0] = '\0';
  for (unsigned i = 0; type >= 0 || type == GNUTLS_E_SHORT_MEMORY_BUFFER; i++) {
    bytes = sizeof name;
    type = gnutls_x509_crt_get_subject_alt_name (cert, i, name, &bytes, NULL);
    if (type != GNUTLS_SAN_URI || strncmp (name, PROCESS_URI, skip) != 0)
      continue;
    if (process[0] || bytes != strlen (name) || bytes == skip ||
        bytes - skip >= PROCESS_BYTES) {
      strcpy (process, "?");
      return;
    }
    strcpy (process, name + skip);
  }
}

/* False: it showed a certificate that can't be read.  One without a name that a node may
 * have has none.
 */
static bool
read_certificate (gnutls_session_t session, struct serial *s,
                  char name[NAME_BYTES_MAX + 1], char process[PROCESS_BYTES])
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
  read_process (cert, process);
  gnutls_x509_crt_deinit (cert);
  return fine;
}

static int
our_handshake (gnutls_session_t session)
{
  struct seen *p = gnutls_session_get_ptr (session);
  struct serial s = { .bytes = 0 };
  char name[NAME_BYTES_MAX + 1] = "", process[PROCESS_BYTES] = "";
  bool bad;
  int r = gnutls_handshake (session);

  if (r != 0 || gnutls_auth_get_type (session) != GNUTLS_CRD_CERTIFICATE)
    return r;
  bad = !read_certificate (session, &s, name, process);
  pthread_mutex_lock (&lock);
  p->serial = s;
  memcpy (p->name, name, sizeof name);
  memcpy (p->process, process, sizeof process);
  bad = bad || (s.bytes > 0 && is_revoked (&s));
  pthread_mutex_unlock (&lock);
  if (p->server && !bad)
    client = p;
  else if (!p->server)
    memcpy (server_process, process, sizeof process);
  return bad ? GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR : r;
}

static ssize_t
our_record_recv (gnutls_session_t session, void *data, size_t bytes)
{
  struct seen *p = gnutls_session_get_ptr (session);
  ssize_t r = gnutls_record_recv (session, data, bytes);

  if (r > 0 && p->caller)
    budget_received (p->caller, data, bytes, (size_t) r);
  /* After it has waited. */
  return atomic_load_explicit (&p->revoked, memory_order_relaxed)
           ? GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR
           : r;
}

static ssize_t
our_record_send (gnutls_session_t session, const void *data, size_t bytes)
{
  const struct seen *p = gnutls_session_get_ptr (session);
  ssize_t r;

  if (p->caller)
    budget_sends (data, bytes);
  r = gnutls_record_send (session, data, bytes);
  if (r > 0 && p->caller)
    budget_sent ((size_t) r);
  return r;
}

static int
our_record_uncork (gnutls_session_t session, unsigned flags)
{
  const struct seen *p = gnutls_session_get_ptr (session);
  int r = gnutls_record_uncork (session, flags);

  if (p->caller)
    budget_uncorked ();
  return r;
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

const char *
tls_client_process (void)
{
  return client ? client->process : "";
}

const char *
tls_server_process (void)
{
  return server_process;
}

void
tls_opened (const struct caller *caller)
{
  if (client && counts)
    client->caller = caller;
}

bool
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
  static const struct call sending[] = {
    { "gnutls_record_send", our_record_send },
    { "gnutls_record_uncork", our_record_uncork },
    { NULL },
  };
  static const struct call names_given[] = {
    { "gnutls_server_name_set", our_server_name_set },
    { NULL },
  };
  bool nbdkit = calls_replace ("", calls);

  works = calls_replace ("/libnbd.so", calls) && nbdkit;
  calls_replace ("/libnbd.so", names_given);
  counts = works && calls_replace ("", sending);
  return counts;
}

bool
tls_works (void)
{
  return works;
}
