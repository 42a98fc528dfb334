/* revoked.c: gets the list of revoked certificates from weftd, and passes it to
 * TLS.
 *
 * Each answer of weftd names the present list, a refusal, too; so this process
 * knows a heartbeat after a node was shut out.  A list's name begins with its
 * number.  Before another list is taken, weftd is shown the list that is stored
 * here: if weftd's database is an old one, weftd then shuts out the nodes of
 * that list again, whatever number its own list has by now.  A list with a
 * lower number than the stored one is not taken.
 */

#include <config.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "common/admin.h"
#include "common/clock.h"
#include "nbdkit-options.h"
#include "revoked.h"
#include "role.h"
#include "nbdkit-tls.h"

/* A heartbeat waits for it. */
#define FETCH_TIMEOUT_MS 2000
#define SHOW_AGAIN_MS 5000

/* Heartbeats of several threads hear of it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char known[64]; /* the name of the list that TLS has; "": none */
/* weftd's answer when that list was last shown to it; the time of the last try
 * without an answer.
 */
static char shown_for[sizeof known];
static uint64_t unshown_ms;

void
revoked_begin (void)
{
  if (params.tls == NULL && !options.tls_required)
    return;
  if (!tls_works ())
    nbdkit_error (
      "TLS of this nbdkit or libnbd is not as Weft knows it: start this "
      "process again to have it take a new certificate, and see what was "
      "revoked");
  else if (options.certificates[0])
    tls_folder (options.certificates);
}

/* By a client of its own: the caller still needs the answer to its own call. */
static char *
fetch (void)
{
  struct admin *admin = admin_new (params.admin, params.tls, NULL);
  char *pem = NULL;

  if (admin)
    admin_fetch (admin, "/ca-crl.pem", &pem, FETCH_TIMEOUT_MS);
  admin_free (admin);
  return pem;
}

static void
take (const char *name)
{
  char *pem = fetch ();
  int ended;

  if (pem == NULL)
    return; /* the next answer names it again */
  ended = tls_revoked (pem);
  free (pem);
  if (ended == -2)
    return;
  if (ended == -1) {
    nbdkit_error ("weftd's list of revoked certificates can't be read");
    return;
  }
  strcpy (known, name);
  if (ended > 0)
    nbdkit_error ("%d connections end, as the certificates of their peers were "
                  "revoked",
                  ended);
}

/* weftd's answer to a list of a CA that it does not trust: after weftctl ca retire a host
 * may still have the list of the former CA, which says nothing of the next one's certificates.
 */
#define OTHER_CA 409

/* weftd has read it, and verified that the CA has signed it; or has refused it for good. */
static bool
has_read (int status)
{
  return status == 200 || (status >= 400 && status < 500 && status != 429);
}

/* Show weftd the newest list of this host, if there is one.  False: weftd has not read it. */
static bool
show_list (void)
{
  json_t *body, *reply = NULL;
  struct admin *admin;
  int status = -1;
  char *pem;

  tls_list_read ();
  pem = tls_list ();
  body = pem ? json_pack ("{ss}", "crl", pem) : NULL;
  free (pem);
  if (body == NULL)
    return true;
  admin = admin_new (params.admin, params.tls, NULL);
  if (admin)
    status = admin_call (admin, "PUT", "/api/v1/revocations", body, &reply,
                         FETCH_TIMEOUT_MS);
  if (admin && status == OTHER_CA)
    nbdkit_debug (
      "weftd does not need the list of revoked certificates that this host "
      "has: %s",
      admin_error (admin));
  else if (admin && status != 200)
    nbdkit_error (
      "weftd does not take the newest list of revoked certificates: "
      "%s",
      admin_error (admin));
  json_decref (reply);
  json_decref (body);
  admin_free (admin);
  return has_read (status);
}

/* Once for each list that weftd names. */
static bool
is_shown (const char *name)
{
  if (strcmp (name, shown_for) == 0)
    return true;
  if (unshown_ms && clock_ms () - unshown_ms < SHOW_AGAIN_MS)
    return false;
  if (!show_list ()) {
    unshown_ms = clock_ms ();
    return false;
  }
  unshown_ms = 0;
  strcpy (shown_for, name);
  return true;
}

/* The number that a name begins with; UINT64_MAX: it has none, as from an earlier weftd. */
static uint64_t
number_of (const char *name)
{
  char *end;
  unsigned long long number = strtoull (name, &end, 10);

  return *end == '-' ? number : UINT64_MAX;
}

void
revoked_heard (struct admin *admin)
{
  const char *said = tls_works () ? admin_answered (admin, "Weft-Revoked")
                                  : NULL;
  char name[sizeof known];

  if (said == NULL)
    return;
  snprintf (name, sizeof name, "%s", said);
  if (pthread_mutex_trylock (&lock) != 0)
    return; /* another thread is at it */
  if (strcmp (name, known) != 0 && is_shown (name) &&
      number_of (name) >= tls_list_number ())
    take (name);
  pthread_mutex_unlock (&lock);
}
