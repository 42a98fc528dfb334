/* ca.c: see ca.h.  Keys are of the curve P-256.
 *
 * The key is written first: a weftd that dies before the certificate is written
 * makes that when it is started again.  A certificate without its key cannot
 * sign, and is never replaced: hosts trust it.  After a change of the CA, the
 * CA's certificate is in ca-key.pem, too, so that both are replaced at once;
 * ca-cert.pem is then a public copy.
 */

#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/name.h"
#include "ca.h"
#include "common/refuse.h"
#include "format/format.h"
#include "server/alloc.h"
#include "server/log.h"
#include "server/text.h"

#define CA_SECONDS (UINT64_C (20) * 366 * 24 * 3600)
/* A CRL is valid until there is a newer one: weftd may be down for any time,
 * and no host's data may wait for it.
 */
#define CRL_SECONDS CA_SECONDS
/* All begin here, 2000-01-01, and not when they are made: the clock of weftd's host may
 * have been ahead then, or that of a host behind now, and nobody would be believed until
 * that time comes.  When a certificate was made, its record says.
 */
#define BEGIN_SECONDS INT64_C (946684800)
/* A clock that shows less than 2026-01-01 is wrong: nothing ends sooner for that. */
#define RIGHT_SECONDS INT64_C (1767225600)
#define PROCESS_URI "weft:"
#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192

struct ca {
  EVP_PKEY *key;
  X509 *x509;
  char *pem;
  char fingerprint[CA_FINGERPRINT_BYTES];
};

/* ---- Certificates. ---- */

static void
add_extension (X509 *x509, X509 *issuer, int nid, const char *value)
{
  X509V3_CTX context;
  X509_EXTENSION *extension;

  X509V3_set_ctx (&context, issuer, x509, NULL, NULL, 0);
  extension = X509V3_EXT_conf_nid (NULL, &context, nid, value);
  if (extension == NULL || X509_add_ext (x509, extension, -1) != 1)
    abort ();
  X509_EXTENSION_free (extension);
}

/* Their characters are those of host names and addresses. */
static void
add_names (X509 *x509, const struct ca_names *names)
{
  size_t size;
  char *text;
  FILE *f = open_memstream (&text, &size);

  if (f == NULL)
    abort ();
  for (unsigned i = 0; i < names->dns_count; i++)
    fprintf (f, ",DNS:%s", names->dns[i]);
  for (unsigned i = 0; i < names->address_count; i++)
    fprintf (f, ",IP:%s", names->address[i]);
  if (names->process[0])
    fprintf (f, ",URI:" PROCESS_URI "%s", names->process);
  if (fclose (f) != 0)
    abort ();
  if (size > 0)
    add_extension (x509, NULL, NID_subject_alt_name, text + 1);
  free (text);
}

bool
ca_names_have_address (const struct ca_names *names, const char *address)
{
  for (unsigned i = 0; i < names->address_count; i++)
    if (strcmp (names->address[i], address) == 0)
      return true;
  return false;
}

static time_t
now_seconds (void)
{
  time_t now = time (NULL);

  return now > RIGHT_SECONDS ? now : RIGHT_SECONDS;
}

/* All but the extensions and the signature; its issuer's name is `issuer`'s, or
 * its own.
 */
static X509 *
begin (EVP_PKEY *key, const char *cn, X509 *issuer, uint64_t seconds)
{
  X509 *x509 = X509_new ();
  X509_NAME *name = X509_NAME_new ();
  uint8_t serial[16];
  BIGNUM *number;

  if (x509 == NULL || name == NULL || RAND_bytes (serial, sizeof serial) != 1)
    abort ();
  serial[0] = (serial[0] & 0x3f) | 0x40; /* positive, of full length */
  number = BN_bin2bn (serial, sizeof serial, NULL);
  X509_NAME_add_entry_by_txt (name, "CN", MBSTRING_UTF8,
                              (const unsigned char *) cn, -1, -1, 0);
  if (X509_set_version (x509, X509_VERSION_3) != 1 ||
      BN_to_ASN1_INTEGER (number, X509_get_serialNumber (x509)) == NULL ||
      X509_set_subject_name (x509, name) != 1 ||
      X509_set_issuer_name (x509, issuer ? X509_get_subject_name (issuer)
                                         : name) != 1 ||
      X509_set_pubkey (x509, key) != 1)
    abort ();
  ASN1_TIME_set (X509_getm_notBefore (x509), BEGIN_SECONDS);
  ASN1_TIME_set (X509_getm_notAfter (x509), now_seconds () + (time_t) seconds);
  BN_free (number);
  X509_NAME_free (name);
  return x509;
}

static void
sign (X509 *x509, EVP_PKEY *key)
{
  if (X509_sign (x509, key, EVP_sha256 ()) == 0)
    abort ();
}

void
ca_sign (const struct ca *ca, EVP_PKEY *key, const char *cn,
         const struct ca_names *names, bool client, uint64_t seconds,
         struct ca_certificate *certificate)
{
  X509 *x509 = begin (key, cn, ca->x509, seconds);

  add_extension (x509, ca->x509, NID_basic_constraints, "critical,CA:FALSE");
  add_extension (x509, ca->x509, NID_key_usage, "critical,digitalSignature");
  add_extension (x509, ca->x509, NID_ext_key_usage,
                 client ? "serverAuth,clientAuth" : "serverAuth");
  add_extension (x509, ca->x509, NID_subject_key_identifier, "hash");
  add_extension (x509, ca->x509, NID_authority_key_identifier, "keyid");
  add_names (x509, names);
  sign (x509, ca->key);
  certificate->x509 = x509;
  ca_serial (x509, certificate->serial);
  certificate->created = (uint64_t) now_seconds () * 1000;
  certificate->expires = certificate->created + seconds * 1000;
}

uint64_t
ca_seconds (uint64_t usual)
{
  const char *text = getenv ("WEFT_CERTIFICATE_SECONDS");
  char *end;
  unsigned long n;

  if (text == NULL || text[0] < '1' || text[0] > '9')
    return usual;
  n = strtoul (text, &end, 10);
  return *end == '\0' && n < usual ? n : usual;
}

void
ca_serial (X509 *x509, char text[CA_SERIAL_BYTES])
{
  BIGNUM *number = ASN1_INTEGER_to_BN (X509_get_serialNumber (x509), NULL);
  char *hex = BN_bn2hex (number);

  snprintf (text, CA_SERIAL_BYTES, "%s", hex);
  OPENSSL_free (hex);
  BN_free (number);
}

/* False: it names no process. */
static bool
take_process (const GENERAL_NAME *uri, char text[CA_PROCESS_BYTES])
{
  const ASN1_STRING *value = uri->d.uniformResourceIdentifier;
  const char *data = (const char *) ASN1_STRING_get0_data (value);
  size_t n = (size_t) ASN1_STRING_length (value), skip = strlen (PROCESS_URI);
  uint8_t uuid[16];

  if (n <= skip || n - skip >= CA_PROCESS_BYTES || memchr (data, '\0', n) ||
      memcmp (data, PROCESS_URI, skip) != 0)
    return false;
  memcpy (text, data + skip, n - skip);
  text[n - skip] = '\0';
  return (strncmp (text, "disk:", 5) == 0 &&
          format_uuid_parse (text + 5, uuid) == 0) ||
         (strncmp (text, "array:", 6) == 0 && name_valid (text + 6));
}

void
ca_process (X509 *x509, char text[CA_PROCESS_BYTES])
{
  GENERAL_NAMES *list = X509_get_ext_d2i (x509, NID_subject_alt_name, NULL,
                                          NULL);

  text[0] = '\0';
  for (int i = 0; i < sk_GENERAL_NAME_num (list); i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value (list, i);

    if (name->type == GEN_URI && (text[0] || !take_process (name, text)))
      strcpy (text, "?");
  }
  GENERAL_NAMES_free (list);
}

bool
ca_common_name (X509 *x509, char *text, size_t size)
{
  int n = X509_NAME_get_text_by_NID (X509_get_subject_name (x509),
                                     NID_commonName, text, (int) size);

  return n > 0 && (size_t) n == strlen (text) && (size_t) n + 1 < size;
}

static char *
take_text (BIO *bio)
{
  char *data, *text;
  long n = BIO_get_mem_data (bio, &data);

  text = strndup (data, (size_t) n);
  if (text == NULL)
    abort ();
  BIO_free (bio);
  return text;
}

char *
ca_print (X509 *x509)
{
  BIO *bio = BIO_new (BIO_s_mem ());

  if (bio == NULL || PEM_write_bio_X509 (bio, x509) != 1)
    abort ();
  return take_text (bio);
}

/* ---- What is revoked. ---- */

static void
add_revoked (X509_CRL *crl, const struct ca_revoked *r)
{
  X509_REVOKED *entry = X509_REVOKED_new ();
  ASN1_TIME *since = ASN1_TIME_set (NULL, (time_t) (r->since / 1000));
  BIGNUM *number = NULL;
  ASN1_INTEGER *serial;

  if (entry == NULL || since == NULL || BN_hex2bn (&number, r->serial) == 0)
    abort ();
  serial = BN_to_ASN1_INTEGER (number, NULL);
  if (serial == NULL || X509_REVOKED_set_serialNumber (entry, serial) != 1 ||
      X509_REVOKED_set_revocationDate (entry, since) != 1 ||
      X509_CRL_add0_revoked (crl, entry) != 1)
    abort ();
  ASN1_INTEGER_free (serial);
  ASN1_TIME_free (since);
  BN_free (number);
}

char *
ca_crl (const struct ca *ca, const struct ca_revoked *list, size_t count,
        uint64_t number)
{
  X509_CRL *crl = X509_CRL_new ();
  BIO *bio = BIO_new (BIO_s_mem ());
  time_t now = now_seconds ();
  ASN1_TIME *from = ASN1_TIME_set (NULL, BEGIN_SECONDS);
  ASN1_TIME *until = ASN1_TIME_set (NULL, now + (time_t) CRL_SECONDS);
  ASN1_INTEGER *own_number = ASN1_INTEGER_new ();
  X509_EXTENSION *issuer;
  X509V3_CTX context;

  if (crl == NULL || bio == NULL || from == NULL || until == NULL ||
      own_number == NULL ||
      X509_CRL_set_version (crl, X509_CRL_VERSION_2) != 1 ||
      X509_CRL_set_issuer_name (crl, X509_get_subject_name (ca->x509)) != 1 ||
      X509_CRL_set1_lastUpdate (crl, from) != 1 ||
      X509_CRL_set1_nextUpdate (crl, until) != 1)
    abort ();
  for (size_t i = 0; i < count; i++)
    add_revoked (crl, &list[i]);
  X509_CRL_sort (crl);
  X509V3_set_ctx (&context, ca->x509, NULL, NULL, crl, 0);
  issuer = X509V3_EXT_conf_nid (NULL, &context, NID_authority_key_identifier,
                                "keyid");
  if (issuer == NULL || X509_CRL_add_ext (crl, issuer, -1) != 1 ||
      ASN1_INTEGER_set_uint64 (own_number, number) != 1 ||
      X509_CRL_add1_ext_i2d (crl, NID_crl_number, own_number, 0, 0) != 1)
    abort ();
  X509_EXTENSION_free (issuer);
  ASN1_INTEGER_free (own_number);
  if (X509_CRL_sign (crl, ca->key, EVP_sha256 ()) == 0 ||
      PEM_write_bio_X509_CRL (bio, crl) != 1)
    abort ();
  ASN1_TIME_free (from);
  ASN1_TIME_free (until);
  X509_CRL_free (crl);
  return take_text (bio);
}

/* ---- The files. ---- */

static int
sync_directory (const char *dir)
{
  int fd = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int r = fd == -1 ? -1 : fsync (fd);

  if (fd != -1)
    close (fd);
  return r;
}

/* Durable, and seen as a whole or not at all.  -1: it is as it was; -2: it is as it
 * should be, but may not stay.  The text is let go.
 */
static int
write_file (const char *dir, const char *name, char *text, char *why,
            size_t why_size)
{
  char path[4096], temporary[4096];
  size_t n = strlen (text);
  int fd, r = -1;

  snprintf (path, sizeof path, "%s/%s", dir, name);
  snprintf (temporary, sizeof temporary, "%s/%s.new", dir, name);
  unlink (temporary);
  fd = open (temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd != -1 && write (fd, text, n) == (ssize_t) n && fsync (fd) == 0 &&
      rename (temporary, path) == 0)
    r = sync_directory (dir) == 0 ? 0 : -2;
  if (r != 0)
    snprintf (why, why_size, "cannot write %s: %s", path, strerror (errno));
  if (fd != -1)
    close (fd);
  OPENSSL_cleanse (text, n);
  free (text);
  return r;
}

/* NULL with `why` "": there is no such file. */
static BIO *
open_file (const char *dir, const char *name, char *why, size_t why_size)
{
  char path[4096];
  BIO *bio;
  int fd;

  why[0] = '\0';
  snprintf (path, sizeof path, "%s/%s", dir, name);
  fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd == -1) {
    if (errno != ENOENT)
      snprintf (why, why_size, "cannot read %.300s: %s", path,
                strerror (errno));
    return NULL;
  }
  bio = BIO_new_fd (fd, BIO_CLOSE);
  if (bio == NULL)
    abort ();
  return bio;
}

char *
ca_print_key (const struct ca *ca)
{
  BIO *bio = BIO_new (BIO_s_mem ());

  if (bio == NULL ||
      PEM_write_bio_PrivateKey (bio, ca->key, NULL, NULL, 0, NULL, NULL) != 1)
    abort ();
  return take_text (bio);
}

static int
make_key (struct ca *ca, const char *dir, char *why, size_t why_size)
{
  ca->key = EVP_EC_gen ("P-256");
  if (ca->key == NULL)
    abort ();
  return write_file (dir, "ca-key.pem", ca_print_key (ca), why, why_size);
}

static void
add_networks (X509 *x509, const struct ca_networks *n)
{
  static const char ever[] =
    "critical,permitted;IP:127.0.0.0/255.0.0.0,"
    "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
  char value[sizeof ever + CA_NETWORKS_MAX * (CA_NETWORK_BYTES + 16)];
  size_t at = (size_t) snprintf (value, sizeof value, "%s", ever);

  if (n->count == 0)
    return;
  for (unsigned i = 0; i < n->count; i++) {
    char text[CA_NETWORK_BYTES];

    ca_network_print (&n->network[i], text);
    at += (size_t) snprintf (value + at, sizeof value - at, ",permitted;IP:%s",
                             text);
  }
  add_extension (x509, x509, NID_name_constraints, value);
}

/* All but the networks and the signature. */
static X509 *
begin_ca (EVP_PKEY *key, const char *cn)
{
  X509 *x509 = begin (key, cn, NULL, CA_SECONDS);

  add_extension (x509, x509, NID_basic_constraints,
                 "critical,CA:TRUE,pathlen:0");
  add_extension (x509, x509, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension (x509, x509, NID_subject_key_identifier, "hash");
  return x509;
}

static int
make_certificate (struct ca *ca, const struct ca_networks *networks,
                  const char *dir, char *why, size_t why_size)
{
  X509 *x509 = begin_ca (ca->key, "Weft cluster CA");

  add_networks (x509, networks);
  sign (x509, ca->key);
  ca->x509 = x509;
  return write_file (dir, "ca-cert.pem", ca_print (x509), why, why_size);
}

/* Once its certificate is there. */
static void
describe (struct ca *ca)
{
  uint8_t hash[32];

  if (X509_digest (ca->x509, EVP_sha256 (), hash, NULL) != 1)
    abort ();
  strcpy (ca->fingerprint, "sha256:");
  text_hex_print (hash, sizeof hash, ca->fingerprint + 7);
  ca->pem = ca_print (ca->x509);
}

struct ca *
ca_successor (const struct ca *old, const struct ca_networks *networks)
{
  int bound = X509_get_ext_by_NID (old->x509, NID_name_constraints, -1);
  struct ca *ca = alloc_zeroed (sizeof *ca);
  uint8_t random[4];
  char cn[64] = "Weft cluster CA ";

  if (RAND_bytes (random, sizeof random) != 1)
    abort ();
  text_hex_print (random, sizeof random, cn + strlen (cn));
  ca->key = EVP_EC_gen ("P-256");
  if (ca->key == NULL)
    abort ();
  ca->x509 = begin_ca (ca->key, cn);
  add_networks (ca->x509, networks);
  if (networks->count == 0 && bound >= 0 &&
      X509_add_ext (ca->x509, X509_get_ext (old->x509, bound), -1) != 1)
    abort ();
  sign (ca->x509, ca->key);
  describe (ca);
  return ca;
}

struct ca *
ca_read (const char *key, const char *certificate)
{
  struct ca *ca = alloc_zeroed (sizeof *ca);
  BIO *k = BIO_new_mem_buf (key, -1), *c = BIO_new_mem_buf (certificate, -1);

  ca->key = PEM_read_bio_PrivateKey (k, NULL, NULL, (void *) "");
  ca->x509 = PEM_read_bio_X509 (c, NULL, NULL, NULL);
  BIO_free (k);
  BIO_free (c);
  if (ca->key && ca->x509 && X509_check_private_key (ca->x509, ca->key) == 1) {
    describe (ca);
    return ca;
  }
  ca_free (ca);
  return NULL;
}

/* ca-key.pem has it: this file is made again when weftd is started again. */
static void
write_copy (const char *dir, X509 *x509)
{
  char why[4352];

  if (write_file (dir, "ca-cert.pem", ca_print (x509), why, sizeof why) != 0)
    log_line (
      CLUSTER_WARNING,
      "%s: the copy there of the CA's certificate, for people, is an old "
      "one, or none, until weftd is started again",
      why);
}

int
ca_write (const struct ca *ca, const char *dir, char *why, size_t why_size)
{
  char *key = ca_print_key (ca);
  char *both = alloc_print ("%s%s", key, ca->pem);
  int r;

  OPENSSL_cleanse (key, strlen (key));
  free (key);
  r = write_file (dir, "ca-key.pem", both, why, why_size);
  if (r == 0)
    write_copy (dir, ca->x509);
  return r;
}

static int
load (struct ca *ca, const char *dir, char *why, size_t why_size)
{
  char key_why[512], why_not[512];
  BIO *key = open_file (dir, "ca-key.pem", key_why, sizeof key_why);
  BIO *cert = open_file (dir, "ca-cert.pem", why_not, sizeof why_not);
  X509 *own = NULL;

  if (key) {
    ca->key = PEM_read_bio_PrivateKey (key, NULL, NULL, (void *) "");
    own = PEM_read_bio_X509 (key, NULL, NULL, NULL);
  }
  if (cert)
    ca->x509 = PEM_read_bio_X509 (cert, NULL, NULL, NULL);
  /* weftd may have died before it was durable: the database has it until it is. */
  if (own && sync_directory (dir) == -1)
    snprintf (key_why, sizeof key_why, "cannot write %.300s: %s", dir,
              strerror (errno));
  /* weftd died before the copy was written, or it was put there from a backup. */
  if (own && (ca->x509 == NULL || X509_cmp (own, ca->x509) != 0)) {
    X509_free (ca->x509);
    ca->x509 = own;
    write_copy (dir, own);
    own = NULL;
    why_not[0] = '\0';
  }
  X509_free (own);
  BIO_free (key);
  BIO_free (cert);
  if (key_why[0] || why_not[0])
    return refuse (why, why_size, "%s", key_why[0] ? key_why : why_not);
  if ((key && ca->key == NULL) || (cert && ca->x509 == NULL) ||
      (cert &&
       (key == NULL || X509_check_private_key (ca->x509, ca->key) != 1)))
    return refuse (why, why_size,
                   "the files ca-key.pem and ca-cert.pem in %s do not belong "
                   "together, or one is damaged: restore them from a backup; "
                   "or remove both, and enroll all nodes again",
                   dir);
  return 0;
}

struct ca *
ca_open (const char *dir, const struct ca_networks *networks, char *why,
         size_t why_size)
{
  struct ca *ca = alloc_zeroed (sizeof *ca);

  if (load (ca, dir, why, why_size) == -1 ||
      (ca->key == NULL && make_key (ca, dir, why, why_size) != 0) ||
      (ca->x509 == NULL &&
       make_certificate (ca, networks, dir, why, why_size) != 0)) {
    ca_free (ca);
    return NULL;
  }
  describe (ca);
  return ca;
}

bool
ca_is_constrained (const struct ca *ca)
{
  return X509_get_ext_by_NID (ca->x509, NID_name_constraints, -1) >= 0;
}

bool
ca_is_bound_to (const struct ca *ca, const struct ca_networks *networks)
{
  int bound = X509_get_ext_by_NID (ca->x509, NID_name_constraints, -1), own;
  X509 *other = X509_new ();
  bool same = false;

  if (other == NULL)
    abort ();
  add_networks (other, networks);
  own = X509_get_ext_by_NID (other, NID_name_constraints, -1);
  if (bound >= 0 && own >= 0)
    same = ASN1_OCTET_STRING_cmp (
             X509_EXTENSION_get_data (X509_get_ext (ca->x509, bound)),
             X509_EXTENSION_get_data (X509_get_ext (other, own))) == 0;
  X509_free (other);
  return same;
}

bool
ca_permits (const struct ca *ca, const char *address)
{
  NAME_CONSTRAINTS *nc = X509_get_ext_d2i (ca->x509, NID_name_constraints, NULL,
                                           NULL);
  bool found = !ca_is_constrained (ca);

  for (int i = 0; nc && i < sk_GENERAL_SUBTREE_num (nc->permittedSubtrees);
       i++) {
    const GENERAL_NAME *name =
      sk_GENERAL_SUBTREE_value (nc->permittedSubtrees, i)->base;
    struct ca_network n;

    if (name->type != GEN_IPADD)
      continue;
    /* An address and its mask, one after the other. */
    n.size = (unsigned) ASN1_STRING_length (name->d.iPAddress) / 2;
    if (n.size != 4 && n.size != 16)
      continue;
    memcpy (n.address, ASN1_STRING_get0_data (name->d.iPAddress), n.size);
    memcpy (n.mask, ASN1_STRING_get0_data (name->d.iPAddress) + n.size, n.size);
    found |= ca_network_has (&n, address);
  }
  NAME_CONSTRAINTS_free (nc);
  return found;
}

void
ca_free (struct ca *ca)
{
  if (ca == NULL)
    return;
  EVP_PKEY_free (ca->key);
  X509_free (ca->x509);
  free (ca->pem);
  free (ca);
}

X509 *
ca_x509 (const struct ca *ca)
{
  return ca->x509;
}

const char *
ca_pem (const struct ca *ca)
{
  return ca->pem;
}

const char *
ca_fingerprint (const struct ca *ca)
{
  return ca->fingerprint;
}

void
ca_subject (const struct ca *ca, char text[CA_SUBJECT_BYTES])
{
  if (!ca_common_name (ca->x509, text, CA_SUBJECT_BYTES))
    text[0] = '\0';
}

static uint64_t
time_of (const ASN1_TIME *t)
{
  struct tm tm;

  return ASN1_TIME_to_tm (t, &tm) == 1 ? (uint64_t) timegm (&tm) * 1000 : 0;
}

void
ca_times (const struct ca *ca, uint64_t *since, uint64_t *until)
{
  const ASN1_TIME *begin = X509_get0_notBefore (ca->x509);

  *until = time_of (X509_get0_notAfter (ca->x509));
  *since = time_of (begin);
  if (*since == BEGIN_SECONDS * 1000) /* it is one of ours */
    *since = *until - CA_SECONDS * 1000;
}

void
ca_signed (X509 *x509, uint64_t *until, char issuer[CA_SUBJECT_BYTES])
{
  *until = time_of (X509_get0_notAfter (x509));
  if (X509_NAME_get_text_by_NID (X509_get_issuer_name (x509), NID_commonName,
                                 issuer, CA_SUBJECT_BYTES) < 0)
    issuer[0] = '\0';
}

/* ---- Requests from outside. ---- */

static const char *
bad_key (EVP_PKEY *key)
{
  char group[64] = "";

  switch (EVP_PKEY_get_base_id (key)) {
  case EVP_PKEY_EC:
    EVP_PKEY_get_group_name (key, group, sizeof group, NULL);
    return strcmp (group, "prime256v1") == 0 ||
               strcmp (group, "secp384r1") == 0 ||
               strcmp (group, "secp521r1") == 0
             ? NULL
             : "its key is of another curve than P-256, P-384 and P-521";
  case EVP_PKEY_ED25519:
    return NULL;
  case EVP_PKEY_RSA:
    return EVP_PKEY_get_bits (key) >= RSA_BITS_MIN &&
               EVP_PKEY_get_bits (key) <= RSA_BITS_MAX
             ? NULL
             : "its RSA key does not have 2048 to 8192 bits";
  default:
    return "its key is of another kind than EC, Ed25519 and RSA";
  }
}

static const char *
take_name (const GENERAL_NAME *name, struct ca_names *names)
{
  int kind;
  const ASN1_STRING *value = GENERAL_NAME_get0_value (name, &kind);
  const unsigned char *data;
  int n;

  if (kind == GEN_URI)
    return names->process[0] == '\0' && take_process (name, names->process)
             ? NULL
             : "a URI in it must be weft:disk:UUID or weft:array:NAME, and "
               "there may be one";
  if (kind != GEN_DNS && kind != GEN_IPADD)
    return "it asks for another kind of name than DNS, IP and URI";
  if (names->dns_count == CA_NAMES_MAX || names->address_count == CA_NAMES_MAX)
    return "it asks for too many names";
  data = ASN1_STRING_get0_data (value);
  n = ASN1_STRING_length (value);
  if (kind == GEN_DNS) {
    if (n <= 0 || n > 253 || memchr (data, '\0', (size_t) n))
      return "a DNS name in it is too long";
    memcpy (names->dns[names->dns_count], data, (size_t) n);
    names->dns[names->dns_count++][n] = '\0';
    return NULL;
  }
  if ((n != 4 && n != 16) ||
      inet_ntop (n == 4 ? AF_INET : AF_INET6, data,
                 names->address[names->address_count], 46) == NULL)
    return "an IP address in it has an odd length";
  names->address_count++;
  return NULL;
}

static const char *
take_names (X509_REQ *request, struct ca_names *names)
{
  STACK_OF (X509_EXTENSION) *extensions = X509_REQ_get_extensions (request);
  GENERAL_NAMES *list = X509V3_get_d2i (extensions, NID_subject_alt_name, NULL,
                                        NULL);
  const char *why = NULL;

  for (int i = 0; why == NULL && i < sk_GENERAL_NAME_num (list); i++)
    why = take_name (sk_GENERAL_NAME_value (list, i), names);
  GENERAL_NAMES_free (list);
  sk_X509_EXTENSION_pop_free (extensions, X509_EXTENSION_free);
  return why;
}

EVP_PKEY *
ca_read_request (const char *pem, struct ca_names *names, char *why,
                 size_t why_size)
{
  BIO *bio = BIO_new_mem_buf (pem, -1);
  X509_REQ *request = PEM_read_bio_X509_REQ (bio, NULL, NULL, (void *) "");
  EVP_PKEY *key = request ? X509_REQ_get_pubkey (request) : NULL;
  const char *reason = NULL;

  memset (names, 0, sizeof *names);
  if (key == NULL)
    reason = "it is no certificate request in PEM, such as openssl req makes";
  else if ((reason = bad_key (key)) == NULL) {
    if (X509_REQ_verify (request, key) != 1)
      reason = "it is not signed by the key in it";
    else
      reason = take_names (request, names);
  }
  X509_REQ_free (request);
  BIO_free (bio);
  if (reason == NULL)
    return key;
  EVP_PKEY_free (key);
  snprintf (why, why_size, "field csr: %s", reason);
  return NULL;
}
