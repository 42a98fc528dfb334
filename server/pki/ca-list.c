/* ca-list.c: a list of revoked certificates (a CRL) is read that somebody shows.
 *
 * The CA's signature alone makes it one: it may come from anybody.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "ca-list.h"
#include "server/alloc.h"

/* One by each of two CAs, and some to spare: each costs a signature's verification. */
#define LISTS_MAX 4
/* A record can hold all that weftd counts from here on. */
#define NUMBER_MAX (INT64_MAX / 2)

static bool
take_serial (const ASN1_INTEGER *serial, char text[CA_SERIAL_BYTES])
{
  BIGNUM *number = ASN1_INTEGER_to_BN (serial, NULL);
  char *hex = number ? BN_bn2hex (number) : NULL;
  bool fine = hex && strlen (hex) < CA_SERIAL_BYTES;

  if (fine)
    strcpy (text, hex);
  OPENSSL_free (hex);
  BN_free (number);
  return fine;
}

static bool
take_crl (X509_CRL *crl, struct ca_list *list)
{
  const STACK_OF (X509_REVOKED) *revoked = X509_CRL_get_REVOKED (crl);
  int count = revoked ? sk_X509_REVOKED_num (revoked) : 0;
  ASN1_INTEGER *number = X509_CRL_get_ext_d2i (crl, NID_crl_number, NULL, NULL);
  bool fine = number && ASN1_INTEGER_get_uint64 (&list->number, number) == 1 &&
              list->number <= NUMBER_MAX;

  ASN1_INTEGER_free (number);
  list->serial = alloc_zeroed (((size_t) count + 1) * sizeof *list->serial);
  for (int i = 0; fine && i < count; i++) {
    const X509_REVOKED *r = sk_X509_REVOKED_value (revoked, i);

    fine = take_serial (X509_REVOKED_get0_serialNumber (r),
                        list->serial[list->count]);
    list->count += fine;
  }
  return fine;
}

bool
ca_list_read (const struct ca *ca, const char *pem, struct ca_list *list)
{
  EVP_PKEY *key = X509_get0_pubkey (ca_x509 (ca));
  BIO *bio = BIO_new_mem_buf (pem, -1);
  bool taken = false;
  unsigned count = 0;
  X509_CRL *crl;

  memset (list, 0, sizeof *list);
  while (bio && !taken && count++ < LISTS_MAX &&
         (crl = PEM_read_bio_X509_CRL (bio, NULL, NULL, (void *) "")) != NULL) {
    taken = X509_CRL_verify (crl, key) == 1 && take_crl (crl, list);
    if (!taken)
      ca_list_free (list);
    X509_CRL_free (crl);
  }
  BIO_free (bio);
  return taken;
}

void
ca_list_free (struct ca_list *list)
{
  free (list->serial);
  memset (list, 0, sizeof *list);
}
