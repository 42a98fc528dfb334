/* routes-backup.c: a backup of all that weftd has stored, and the end of what weftd says
 * after it was restored from one.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "auth-internal.h"
#include "common/clock.h"
#include "routes-internal.h"
#include "views.h"

/* All records, as they are when all that was answered before is durable.  The CA's key is
 * none, and belongs to it.
 */
static void
handle_backup (struct loop *l, struct request *r)
{
  const struct ca *ca = trust_ca (loop_auth (l)->trust);
  struct store_txn *t = store_txn_new ();
  char *key = ca_print_key (ca);

  t->dumps = true;
  loop_answer_stored (l, r, 200,
                      json_pack ("{sI ss s{ss ss}}", "made_ms",
                                 (json_int_t) clock_wall_ms (), "version",
                                 PACKAGE_VERSION, "ca", "certificate",
                                 ca_pem (ca), "key", key),
                      t);
  OPENSSL_cleanse (key, strlen (key));
  free (key);
}

/* On the HTTP thread, because there may be many. */
static json_t *
finish_backup (struct loop *l, struct request *r)
{
  json_t *records = r->text ? json_loads (r->text, 0, NULL) : NULL;
  json_t *body = json_copy (r->body);

  if (r->text)
    OPENSSL_cleanse (r->text, strlen (r->text));
  r->text = NULL; /* it is the loop's to free */
  if (records) {
    json_object_set_new (body, "records", records);
    return body;
  }
  json_decref (body);
  r->status = 503;
  return view_error (503, NULL, "unreadable",
                     "weftd could not read what it has stored: see its log, "
                     "and try again");
}

/* ---- What was revoked since is revoked again. ---- */

static void
handle_confirm (struct loop *l, struct request *r)
{
  cluster_restore_confirm (loop_cluster (l), loop_input (l, r));
}

static json_t *
reply_confirm (struct loop *l, struct request *r,
               const struct cluster_output *o, struct store_txn *t, int *status)
{
  auth_revoked_confirm (loop_auth (l), t);
  loop_note_doubt (l);
  return json_pack ("{sb}", "confirmed", 1);
}

const struct route routes_backup[] = {
  { "POST", V1 "/backup", .secret = true, .handle = handle_backup,
    .finish = finish_backup },
  { "POST", V1 "/revocations/confirm", .handle = handle_confirm,
    .reply = reply_confirm },
  { NULL },
};
