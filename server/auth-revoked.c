/* auth-revoked.c: the list of what was revoked, and weftd's doubt that its own is the newest.
 *
 * Each list has a number.  It grows with each certificate that is revoked, and whenever a
 * token or a user is deleted, a role is lowered or a password is set: with all that an
 * older database would bring back.  Members, arrays and nodes keep the newest list that
 * they have got.  When weftd names an older one, they show theirs, and the CA's signature
 * on that is the proof that weftd's database is an old one.  Then
 *
 *   certificates on the list   are revoked here, too, and so are all others of their nodes
 *   passwords and tokens       of before are refused; logins, and tokens that enroll a
 *                              node, are gone
 *
 * until an administrator has confirmed the revocations.  A user who may read
 * weftd's state directory can log in with the one-time URL in the file
 * setup-url.  The same holds from the start after a restore from a backup, or
 * if the database was copied to another file, because later revocations are
 * not known.
 *
 * The number and the doubt are a record of kind "revoked".
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "auth-internal.h"
#include "log.h"
#include "text.h"

void
auth_revoked_name (struct auth *a, char name[REVOKED_NAME_BYTES])
{
  pthread_mutex_lock (&a->lock);
  snprintf (name, REVOKED_NAME_BYTES, "%" PRIu64 "-%016" PRIx64,
            a->doubt.number, a->revoked_tag);
  pthread_mutex_unlock (&a->lock);
}

bool
auth_in_doubt (struct auth *a)
{
  bool r;

  pthread_mutex_lock (&a->lock);
  r = a->doubt.since > 0;
  pthread_mutex_unlock (&a->lock);
  return r;
}

/* ---- The doubt begins, and ends. ---- */

/* All present secrets: their doubt begins or ends. */
static void
mark_secrets (struct auth *a, struct store_txn *t, bool doubted)
{
  struct secret *s, *next;

  TAILQ_FOREACH_SAFE (s, &a->secrets, link, next)
    if (doubted && s->kind != SECRET_TOKEN)
      auth_store_drop_secret (a, t, s);
    else if (s->doubted != doubted) {
      pthread_mutex_lock (&a->lock);
      s->doubted = doubted;
      pthread_mutex_unlock (&a->lock);
      auth_store_put_secret (a, t, s);
    }
}

static void
mark (struct auth *a, struct store_txn *t, bool doubted)
{
  struct user *u;

  mark_secrets (a, t, doubted);
  TAILQ_FOREACH (u, &a->users, link)
    if (u->doubted != doubted) {
      pthread_mutex_lock (&a->lock);
      u->doubted = doubted;
      pthread_mutex_unlock (&a->lock);
      auth_store_put_user (a, t, u);
    }
}

static void
begin (struct auth *a, struct store_txn *t, uint64_t wall_ms)
{
  if (a->doubt.since > 0)
    return;
  pthread_mutex_lock (&a->lock);
  a->doubt.since = wall_ms;
  pthread_mutex_unlock (&a->lock);
  mark (a, t, true);
  auth_setup_open (a);
}

void
auth_start (struct auth *a, struct store_txn *t, bool restored,
            const char *file, uint64_t wall_ms)
{
  bool other = strcmp (a->doubt.file, file) != 0;

  if (other) {
    /* Without logins there is nobody to keep out. */
    if (a->doubt.file[0] && !a->no_login && a->doubt.since == 0) {
      a->doubt.copied = true;
      begin (a, t, wall_ms);
      log_line (CLUSTER_WARNING,
                "weftd's database was copied or moved here, and may be an old "
                "one");
    }
    snprintf (a->doubt.file, sizeof a->doubt.file, "%s", file);
    auth_store_put_revoked (a, t);
  }
  /* Lists from before they were counted have the time of the day as their number, in
   * seconds: the first number is above those.
   */
  if (a->doubt.number == 0) {
    a->doubt.number = wall_ms / 1000;
    auth_store_put_revoked (a, t);
  }
  if (restored && a->doubt.since == 0) {
    begin (a, t, wall_ms);
    auth_store_put_revoked (a, t);
  }
}

void
auth_revoked_confirm (struct auth *a, struct store_txn *t)
{
  pthread_mutex_lock (&a->lock);
  a->doubt.since = a->doubt.list = 0;
  a->doubt.copied = false;
  a->doubt.shown_by[0] = '\0';
  pthread_mutex_unlock (&a->lock);
  mark (a, t, false);
  auth_store_put_revoked (a, t);
}

/* ---- Somebody shows a list. ---- */

static const struct certificate *
find (const struct auth *a, const char *serial)
{
  const struct certificate *c;

  TAILQ_FOREACH (c, &a->certificates, link)
    if (strcmp (c->serial, serial) == 0)
      return c;
  return NULL;
}

/* Does it revoke a certificate that weftd would accept?  That is a certificate
 * that is valid by weftd's records, and in doubt also a certificate that weftd
 * does not know (auth_adopt). Without doubt an unknown one was forgotten
 * together with its CA. The numbers do not help: weftd's own may have grown as
 * much since the database was made, as by a new password after a login with
 * setup-url.
 */
static bool
revokes_more (const struct auth *a, const struct ca_list *list)
{
  const struct certificate *c;

  for (size_t i = 0; i < list->count; i++) {
    c = find (a, list->serial[i]);
    if (c ? c->revoked == 0 : a->doubt.since > 0)
      return true;
  }
  return false;
}

/* It was made after the database was: which node it is of is not known. */
static void
add_revoked (struct auth *a, struct store_txn *t, const char *serial,
             const struct ca *ca, uint64_t wall_ms)
{
  struct certificate *c = alloc_zeroed (sizeof *c);

  snprintf (c->serial, sizeof c->serial, "%s", serial);
  snprintf (c->ca, sizeof c->ca, "%s", ca_fingerprint (ca));
  c->created = c->revoked = wall_ms;
  c->expires = wall_ms + a->certificate_seconds * 1000;
  c->addresses = json_array ();
  auth_store_note_revoked (a, c);
  auth_store_put_certificate (a, t, c);
}

static void
take (struct auth *a, struct store_txn *t, const struct ca_list *list,
      const struct ca *ca, uint64_t wall_ms)
{
  const struct certificate *c;
  char node[64];

  for (size_t i = 0; i < list->count; i++) {
    c = find (a, list->serial[i]);
    if (c == NULL)
      add_revoked (a, t, list->serial[i], ca, wall_ms);
    else if (c->revoked == 0) {
      snprintf (node, sizeof node, "%s", c->node);
      log_line (CLUSTER_WARNING,
                "node %s is shut out again: the given list says that it was "
                "revoked, or enrolled again, after this database was made; if "
                "it belongs to the cluster, enroll it again (weft-enroll)",
                node);
      /* And so is what it got from us meanwhile. */
      auth_forget_node (a, t, node);
    }
  }
}

/* A node's certificate may be one that this database does not know. */
static void
print_shower (struct auth *a, const struct caller *caller)
{
  if (caller->serial[0] || caller->role == ROLE_NOBODY)
    snprintf (a->doubt.shown_by, sizeof a->doubt.shown_by, "%s%s at %s",
              caller->serial[0] ? "node " : "somebody", caller->name,
              caller->address);
  else
    auth_caller_words (caller, a->doubt.shown_by);
}

enum auth_revoked_shown
auth_revoked_shown (struct auth *a, struct store_txn *t, const char *pem,
                    const struct caller *caller, uint64_t wall_ms)
{
  struct ca_list list;
  const struct ca *ca = trust_list_read (a->trust, pem, &list);
  enum auth_revoked_shown r = SHOWN_KNOWN;

  if (ca == NULL)
    return SHOWN_FOREIGN;
  if (list.number > a->doubt.number || revokes_more (a, &list)) {
    r = SHOWN_NEWER;
    a->doubt.list = list.number;
    print_shower (a, caller);
    log_line (CLUSTER_WARNING,
              "list %" PRIu64 " of what was revoked, shown by %s and signed by "
              "the cluster's CA, has more than weftd's own (%" PRIu64 "): "
              "weftd's database is an old one",
              list.number, a->doubt.shown_by, a->doubt.number);
    begin (a, t, wall_ms);
    take (a, t, &list, ca, wall_ms);
    pthread_mutex_lock (&a->lock);
    if (a->doubt.number < list.number)
      a->doubt.number = list.number;
    a->doubt.number++;
    pthread_mutex_unlock (&a->lock);
    auth_store_put_revoked (a, t);
  }
  ca_list_free (&list);
  return r;
}

/* ---- The doubt, in words.  ---- */

void
auth_doubt_words (struct auth *a, char *text, size_t size)
{
  const struct auth_doubt *d = &a->doubt;
  int n = 0;

  text[0] = '\0';
  if (d->since == 0)
    return;
  if (d->list)
    n = snprintf (text, size,
                  "weftd's database is an old one: list %" PRIu64
                  " of revoked certificates, shown by %s, is newer. Nodes on "
                  "it are shut out again. Users, tokens and rights that were "
                  "removed since are back: remove them again. ",
                  d->list, d->shown_by);
  else if (d->copied)
    n = snprintf (text, size,
                  "weftd's database was copied or moved here, and may be an "
                  "old one. If nodes, users, tokens or rights were removed "
                  "since it was made, remove them again. ");
  snprintf (text + n, size - (size_t) n,
            "Passwords and tokens from before are refused until weftctl "
            "revocations confirm is run%s%s",
            a->no_login ? ""
                        : "; the file setup-url in weftd's state "
                          "directory lets an administrator in (weftctl "
                          "setup NAME --url-file FILE)",
            trust_phase (a->trust) == TRUST_ONE
              ? ""
              : ". The CA was being rotated then: if that has ended since, "
                "nodes can't connect to weftd until weftctl ca retire --force "
                "is run");
}

json_t *
auth_revoked_view (struct auth *a)
{
  const struct auth_doubt *d = &a->doubt;

  return json_pack ("{sI so so}", "number", (json_int_t) d->number,
                    "unconfirmed_since", text_time (d->since), "shown_by",
                    text_or_null (d->shown_by));
}
