/* test-revoked.c: the list of what was revoked, and what weftd does when it is shown a newer
 * one (server/auth-revoked.c).
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/alloc.h"
#include "server/auth-internal.h"
#include "server/store/store.h"

static char dir[] = "/tmp/test-revoked-XXXXXX";
static const struct caller nobody = { .address = "192.0.2.7" };

static struct ca *
make_ca (void)
{
  const struct ca_networks any = { .count = 0 };
  char why[512], path[64];
  struct ca *ca = ca_open (dir, &any, why, sizeof why);

  assert (ca);
  for (int i = 0; i < 2; i++) {
    snprintf (path, sizeof path, "%s/ca-%s.pem", dir, i ? "key" : "cert");
    assert (unlink (path) == 0);
  }
  return ca;
}

static struct auth *
make_auth (struct trust *trust)
{
  const struct ca_names none = { .dns_count = 0 };

  return auth_new (false, trust, &none, 3600);
}

static void
add_certificate (struct auth *a, const char *serial, const char *node)
{
  struct store_txn *t = store_txn_new ();
  struct certificate *c = alloc_zeroed (sizeof *c);

  strcpy (c->serial, serial);
  strcpy (c->node, node);
  c->created = 1;
  c->expires = 1000000;
  c->addresses = json_array ();
  auth_store_put_certificate (a, t, c);
  store_txn_free (t);
}

static enum auth_revoked_shown
show (struct auth *a, const char *pem)
{
  struct store_txn *t = store_txn_new ();
  enum auth_revoked_shown r = auth_revoked_shown (a, t, pem, &nobody, 5000);

  store_txn_free (t);
  return r;
}

/* A list as this CA would sign it: with this number, of these serial numbers. */
static char *
signed_list (const struct ca *ca, uint64_t number, const char *one,
             const char *two)
{
  const struct ca_revoked list[] = { { one, 1000 }, { two, 1000 } };

  return ca_crl (ca, list, (one != NULL) + (two != NULL), number);
}

static void
test_shown (void)
{
  struct ca *ca = make_ca (), *other = make_ca ();
  struct trust *trust = trust_new (ca, dir, NULL);
  struct auth *a = make_auth (trust);
  struct user *u = alloc_zeroed (sizeof *u);
  struct store_txn *t = store_txn_new ();
  const struct {
    const struct ca *ca;
    uint64_t number;
    const char *one, *two;
    enum auth_revoked_shown result;
    bool doubt;
  } lists[] = {
    { ca, 99, NULL, NULL, SHOWN_KNOWN, false },  /* older */
    { ca, 100, NULL, NULL, SHOWN_KNOWN, false }, /* its own */
    { ca, 100, "99", NULL, SHOWN_KNOWN, false }, /* forgotten since */
    { other, 1000, "11", NULL, SHOWN_FOREIGN, false },
    { ca, UINT64_MAX, "11", NULL, SHOWN_FOREIGN,
      false },                                   /* weftd makes no such */
    { ca, 100, "11", NULL, SHOWN_NEWER, true },  /* of a good one */
    { ca, 101, NULL, NULL, SHOWN_NEWER, true },  /* a token, or so */
    { ca, 1000, "11", "77", SHOWN_NEWER, true }, /* of the unknown */
  };

  strcpy (u->name, "kim");
  auth_store_put_user (a, t, u);
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    char *pem = signed_list (lists[i].ca, lists[i].number, lists[i].one,
                             lists[i].two);

    auth_revoked_confirm (a, t);
    assert (!u->doubted && !auth_in_doubt (a));
    a->doubt.number = 100;
    for (struct certificate *c; (c = TAILQ_FIRST (&a->certificates));)
      auth_store_drop_certificate (a, t, c);
    add_certificate (a, "11", "evil");
    add_certificate (a, "12", "evil"); /* got from us meanwhile */
    add_certificate (a, "21", "good");
    assert (show (a, pem) == lists[i].result);
    assert (auth_in_doubt (a) == lists[i].doubt);
    assert (u->doubted == lists[i].doubt);
    assert (a->doubt.number >= lists[i].number ||
            lists[i].result == SHOWN_FOREIGN);
    assert ((a->doubt.number > 100) == lists[i].doubt);
    assert (certificates_find (&a->certificates, "good", "21"));
    if (lists[i].doubt && lists[i].one) {
      assert (!certificates_find (&a->certificates, "evil", "11"));
      assert (!certificates_find (&a->certificates, "evil", "12"));
    }
    assert (strstr (auth_store_crl (a), "BEGIN X509 CRL"));
    if (lists[i].two) { /* it is on our list from now on */
      struct ca_list own;

      assert (ca_list_read (ca, auth_store_crl (a), &own) && own.count == 3);
      assert (own.number == a->doubt.number);
      ca_list_free (&own);
    }
    if (lists[i].result != SHOWN_FOREIGN)
      assert (show (a, pem) == SHOWN_KNOWN); /* once more */
    free (pem);
  }
  store_txn_free (t);
  auth_free (a);
  trust_free (trust);
  ca_free (other);
}

/* In doubt a certificate that weftd does not know is shut out, too, by whatever list: its own
 * number may have grown as much.
 */
static void
test_unknown (void)
{
  struct ca *ca = make_ca ();
  struct trust *trust = trust_new (ca, dir, NULL);
  struct auth *a = make_auth (trust);
  struct store_txn *t = store_txn_new ();
  char *pem = signed_list (ca, 100, "77", NULL);

  a->doubt.number = 101;
  assert (show (a, pem) == SHOWN_KNOWN && !auth_in_doubt (a));
  auth_start (a, t, true, "made 1", 5000);
  assert (show (a, pem) == SHOWN_NEWER && a->doubt.number == 102);
  assert (strstr (auth_store_crl (a), "BEGIN X509 CRL"));
  assert (show (a, pem) == SHOWN_KNOWN);
  store_txn_free (t);
  free (pem);
  auth_free (a);
  trust_free (trust);
}

/* While one CA takes the other's place, either's signature is enough. */
static void
test_two (void)
{
  struct ca *ca = make_ca (), *next = make_ca (), *third = make_ca ();
  struct trust *trust = trust_new (ca, dir, NULL);
  struct store_txn *t = store_txn_new ();
  struct ca_list list;
  char *one, *two, *both;

  trust_begin (trust, next, t, 1);
  one = signed_list (third, 7, "11", NULL);
  two = signed_list (next, 8, "11", "12");
  both = alloc_print ("%s%s", one, two);
  assert (trust_list_read (trust, both, &list) == next);
  assert (list.number == 8 && list.count == 2);
  assert (strcmp (list.serial[0], "11") == 0);
  ca_list_free (&list);
  assert (trust_list_read (trust, one, &list) == NULL && list.count == 0);
  /* No list is read for ever. */
  free (both);
  both = alloc_print ("%s%s%s%s%s", one, one, one, one, two);
  assert (trust_list_read (trust, both, &list) == NULL);
  free (one);
  free (two);
  free (both);
  store_txn_free (t);
  trust_free (trust);
  ca_free (third);
}

/* After a restore there is doubt from the start, and again if weftd died just then. */
static void
test_start (void)
{
  struct trust *trust = trust_new (make_ca (), dir, NULL);
  struct auth *a = make_auth (trust);
  struct store_txn *t = store_txn_new ();
  char text[1024];

  auth_start (a, t, false, "made 1", 1800000000000);
  assert (a->doubt.number == 1800000000 && !auth_in_doubt (a));
  auth_doubt_words (a, text, sizeof text);
  assert (text[0] == '\0');
  auth_start (a, t, true, "made 1", 1900000000000);
  assert (a->doubt.number == 1800000000 && auth_in_doubt (a));
  auth_doubt_words (a, text, sizeof text);
  assert (strstr (text, "revocations confirm"));
  store_txn_free (t);
  auth_free (a);
  trust_free (trust);
}

/* A database that is in another file than at the last start was copied there, or put back. */
static void
test_copied (void)
{
  struct trust *trust = trust_new (make_ca (), dir, NULL);
  struct auth *a = make_auth (trust);
  struct store_txn *t = store_txn_new ();
  char text[1024];

  auth_start (a, t, false, "made 1", 5000); /* an earlier weftd's */
  auth_start (a, t, false, "made 1", 6000);
  assert (!auth_in_doubt (a));
  auth_start (a, t, false, "made 2", 7000);
  assert (auth_in_doubt (a) && a->doubt.since == 7000);
  auth_start (a, t, false, "made 2", 8000);
  auth_doubt_words (a, text, sizeof text);
  assert (strstr (text, "copied") && strstr (text, "revocations confirm"));
  auth_revoked_confirm (a, t);
  auth_start (a, t, false, "made 2", 9000);
  assert (!auth_in_doubt (a));
  a->no_login = true;
  auth_start (a, t, false, "made 3", 9000);
  assert (!auth_in_doubt (a));
  store_txn_free (t);
  auth_free (a);
  trust_free (trust);
}

int
main (void)
{
  assert (mkdtemp (dir));
  test_shown ();
  test_unknown ();
  test_two ();
  test_start ();
  test_copied ();
  assert (rmdir (dir) == 0);
  return 0;
}
