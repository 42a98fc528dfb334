/* fuzz-request.c: the certificate request of a node that enrolls.  An accepted request
 * can be signed, and the certificate is then one for that node.
 *
 * The input: 1 byte, even: the PEM as it came; odd: names, each 1 byte (an address of 4
 * or 16 bytes, a DNS name or a URI) and its text up to a NUL, of which a request is
 * made that is signed as it must be.
 */

#include <config.h>

#include <stdio.h>
#include <unistd.h>

#include "fuzz.h"

#include "server/pki/ca.c"

static struct ca *our_ca;
static EVP_PKEY *node_key;

static void
begin_once (void)
{
  char dir[] = "/tmp/weft-fuzz-XXXXXX", path[64], why[512];

  if (our_ca)
    return;
  assert (mkdtemp (dir));
  our_ca = ca_open (dir, &(struct ca_networks) { .count = 0 }, why, sizeof why);
  assert (our_ca);
  snprintf (path, sizeof path, "%s/ca-key.pem", dir);
  unlink (path);
  snprintf (path, sizeof path, "%s/ca-cert.pem", dir);
  unlink (path);
  rmdir (dir);
  node_key = EVP_EC_gen ("P-256");
  assert (node_key);
}

static void
check (const char *pem)
{
  struct ca_certificate certificate;
  struct ca_names names;
  char why[512] = "", name[64];
  EVP_PKEY *key = ca_read_request (pem, &names, why, sizeof why);

  if (key == NULL) {
    assert (why[0]);
    return;
  }
  assert (names.dns_count <= CA_NAMES_MAX &&
          names.address_count <= CA_NAMES_MAX);
  /* weftd gives it the node's own name in place of those it asks for. */
  names.dns_count = 1;
  strcpy (names.dns[0], "n1");
  ca_sign (our_ca, key, "n1", &names, true, 3600, &certificate);
  assert (ca_common_name (certificate.x509, name, sizeof name) &&
          strcmp (name, "n1") == 0);
  assert (X509_verify (certificate.x509, our_ca->key) == 1);
  free (ca_print (certificate.x509));
  X509_free (certificate.x509);
  EVP_PKEY_free (key);
}

static void
add_name (GENERAL_NAMES *list, struct fuzz *f)
{
  static const int kinds[] = { GEN_DNS, GEN_IPADD, GEN_IPADD, GEN_URI,
                               GEN_EMAIL };
  unsigned kind = fuzz_below (f, 5);
  size_t n;
  char *text = fuzz_text (f, &n);
  GENERAL_NAME *name = GENERAL_NAME_new ();
  ASN1_STRING *value = kinds[kind] == GEN_IPADD ? ASN1_OCTET_STRING_new ()
                                                : ASN1_IA5STRING_new ();

  assert (name && value);
  if (kinds[kind] == GEN_IPADD && n > 4)
    n = kind == 1 ? 4 : n;
  ASN1_STRING_set (value, text, (int) n);
  GENERAL_NAME_set0_value (name, kinds[kind], value);
  sk_GENERAL_NAME_push (list, name);
  free (text);
}

static char *
make_request (struct fuzz *f)
{
  X509_REQ *request = X509_REQ_new ();
  GENERAL_NAMES *list = sk_GENERAL_NAME_new_null ();
  STACK_OF (X509_EXTENSION) *extensions = NULL;
  BIO *bio = BIO_new (BIO_s_mem ());

  assert (request && list && bio);
  while (f->left > 0 && sk_GENERAL_NAME_num (list) < 2 * CA_NAMES_MAX)
    add_name (list, f);
  assert (X509V3_add1_i2d (&extensions, NID_subject_alt_name, list, 0, 0) == 1);
  X509_REQ_add_extensions (request, extensions);
  X509_REQ_set_pubkey (request, node_key);
  X509_REQ_sign (request, node_key, EVP_sha256 ());
  assert (PEM_write_bio_X509_REQ (bio, request) == 1);
  sk_X509_EXTENSION_pop_free (extensions, X509_EXTENSION_free);
  GENERAL_NAMES_free (list);
  X509_REQ_free (request);
  return take_text (bio);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  bool made = fuzz_number (&f, 1) & 1;
  char *pem;

  begin_once ();
  pem = made ? make_request (&f) : fuzz_text (&f, NULL);
  check (pem);
  free (pem);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char names[] =
    "1\0n1.example.org\0\001\300\000\002\007\0\003http://x";
  struct fuzz f = { (const uint8_t *) names + 1, sizeof names - 2 };
  char *pem, *input;

  begin_once ();
  seed (names, sizeof names - 1);
  pem = make_request (&f);
  assert (asprintf (&input, "0%s", pem) > 0);
  seed (input, strlen (input));
  free (input);
  free (pem);
}
