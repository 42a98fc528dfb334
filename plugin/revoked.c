/* revoked.c: what the cluster's CA has revoked is heard from weftd, and given to TLS.
 *
 * Each answer of weftd names the list as it is, a refusal, too; so it is known here a
 * heartbeat after a node was shut out.
 */

#include <config.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "common/admin.h"
#include "options.h"
#include "revoked.h"
#include "role.h"
#include "tls.h"

/* A heartbeat waits for it. */
#define FETCH_TIMEOUT_MS 2000

/* Heartbeats of several threads hear of it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char known[32]; /* the name of the list that TLS has; "": none */

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

/* By a client of its own: what the answer to the caller's said is needed still. */
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
  if (strcmp (name, known) != 0)
    take (name);
  pthread_mutex_unlock (&lock);
}
