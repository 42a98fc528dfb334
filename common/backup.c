/* backup.c: see backup.h. */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "backup.h"
#include "base/bytes.h"
#include "refuse.h"

#define MAGIC "WEFTBKUP"
#define FORMAT_VERSION 1
#define HEADER_BYTES 80
#define TRAILER_BYTES 32
#define AES_BYTES 32
#define CHECK_BYTES 16
#define TAG_BYTES 16
#define ANOTHER "copy it once more, or use another backup"

/* 64 MiB, and some 200 ms. */
#define LOG_N 16
#define R 8
#define P 1
#define MEMORY_BYTES_MAX (UINT64_C (256) << 20)

enum {
  AT_VERSION = 8,
  AT_ENCRYPTED = 9,
  AT_SCRYPT = 10,
  AT_SALT = 16,
  AT_NONCE = 32,
  AT_LENGTH = 48,
  AT_CHECK = 56,
};

struct keys {
  uint8_t aes[AES_BYTES], check[CHECK_BYTES];
};

static bool
is_zero (const uint8_t *file, size_t from, size_t to)
{
  while (from < to && file[from] == 0)
    from++;
  return from == to;
}

/* Are these scrypt's numbers, so that it takes bounded memory and time? */
static bool
scrypt_fits (unsigned log_n, unsigned r, unsigned p)
{
  return log_n >= 1 && log_n <= 20 && r >= 1 && r <= 32 && p >= 1 && p <= 4 &&
         (UINT64_C (128) * r << log_n) <= MEMORY_BYTES_MAX / 2;
}

/* Has the header what its version writes? */
static bool
header_fits (const uint8_t *file)
{
  bool by_scrypt = scrypt_fits (file[AT_SCRYPT], file[AT_SCRYPT + 1],
                                file[AT_SCRYPT + 2]);

  return is_zero (file, AT_SCRYPT + 3, AT_SALT) &&
         is_zero (file, AT_NONCE + 12, AT_LENGTH) &&
         is_zero (file, AT_CHECK + CHECK_BYTES, HEADER_BYTES) &&
         ((file[AT_ENCRYPTED] == 1 && by_scrypt) ||
          (file[AT_ENCRYPTED] == 0 && is_zero (file, AT_SCRYPT, AT_LENGTH) &&
           is_zero (file, AT_CHECK, HEADER_BYTES)));
}

/* False: no memory. */
static bool
derive (const char *passphrase, const uint8_t *header, struct keys *keys)
{
  unsigned log_n = header[AT_SCRYPT], r = header[AT_SCRYPT + 1],
           p = header[AT_SCRYPT + 2];

  return EVP_PBE_scrypt (passphrase, strlen (passphrase), header + AT_SALT, 16,
                         UINT64_C (1) << log_n, r, p, MEMORY_BYTES_MAX,
                         (uint8_t *) keys, sizeof *keys) == 1;
}

/* Encrypt in -> out, and make the tag; or the other way round, and check it. */
static bool
gcm (bool encrypt, const struct keys *keys, const uint8_t *header,
     const uint8_t *in, uint8_t *out, size_t bytes, uint8_t *tag)
{
  EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new ();
  int n;
  bool fine = c &&
              EVP_CipherInit_ex (c, EVP_aes_256_gcm (), NULL, keys->aes,
                                 header + AT_NONCE, encrypt) == 1 &&
              EVP_CipherUpdate (c, NULL, &n, header, HEADER_BYTES) == 1 &&
              EVP_CipherUpdate (c, out, &n, in, (int) bytes) == 1 &&
              (encrypt || EVP_CIPHER_CTX_ctrl (c, EVP_CTRL_GCM_SET_TAG,
                                               TAG_BYTES, tag) == 1) &&
              EVP_CipherFinal_ex (c, out + bytes, &n) == 1 &&
              (!encrypt || EVP_CIPHER_CTX_ctrl (c, EVP_CTRL_GCM_GET_TAG,
                                                TAG_BYTES, tag) == 1);

  EVP_CIPHER_CTX_free (c);
  return fine;
}

bool
backup_is (const uint8_t *file, size_t bytes)
{
  return bytes >= 8 && memcmp (file, MAGIC, 8) == 0;
}

bool
backup_encrypted (const uint8_t *file, size_t bytes)
{
  return backup_is (file, bytes) && bytes >= HEADER_BYTES &&
         file[AT_VERSION] == FORMAT_VERSION && header_fits (file) &&
         file[AT_ENCRYPTED] == 1;
}

uint8_t *
backup_pack (const char *text, size_t text_bytes, const char *passphrase,
             size_t *bytes)
{
  uint8_t *file, *end;
  struct keys keys;
  bool fine = true;

  if (text_bytes > BACKUP_BYTES_MAX ||
      (file = calloc (1, HEADER_BYTES + text_bytes + TRAILER_BYTES)) == NULL)
    return NULL;
  end = file + HEADER_BYTES + text_bytes;
  memcpy (file, MAGIC, 8);
  file[AT_VERSION] = FORMAT_VERSION;
  put_le64 (file + AT_LENGTH, text_bytes);
  if (passphrase) {
    file[AT_ENCRYPTED] = 1;
    file[AT_SCRYPT] = LOG_N;
    file[AT_SCRYPT + 1] = R;
    file[AT_SCRYPT + 2] = P;
    fine = RAND_bytes (file + AT_SALT, 16) == 1 &&
           RAND_bytes (file + AT_NONCE, 12) == 1 &&
           derive (passphrase, file, &keys);
    if (fine) {
      memcpy (file + AT_CHECK, keys.check, CHECK_BYTES);
      fine = gcm (true, &keys, file, (const uint8_t *) text,
                  file + HEADER_BYTES, text_bytes, end);
    }
    OPENSSL_cleanse (&keys, sizeof keys);
  }
  else {
    memcpy (file + HEADER_BYTES, text, text_bytes);
    fine = EVP_Digest (file, HEADER_BYTES + text_bytes, end, NULL,
                       EVP_sha256 (), NULL) == 1;
  }
  if (!fine) {
    free (file);
    return NULL;
  }
  *bytes = HEADER_BYTES + text_bytes + TRAILER_BYTES;
  return file;
}

/* Is it one of ours, and all of it? */
static int
check (const uint8_t *file, size_t bytes, const char *passphrase, char *why,
       size_t why_size)
{
  uint64_t length;

  if (!backup_is (file, bytes))
    return refuse (why, why_size, "it is no file of weftctl backup: name one");
  if (bytes < HEADER_BYTES)
    return refuse (why, why_size, "it is cut off after %zu bytes: " ANOTHER,
                   bytes);
  if (file[AT_VERSION] != FORMAT_VERSION)
    return refuse (why, why_size,
                   "it is of version %u, and this weftd reads version %d: use "
                   "the weftd that made it, or a newer one",
                   file[AT_VERSION], FORMAT_VERSION);
  if (!header_fits (file))
    return refuse (why, why_size, "its header is damaged: " ANOTHER);
  length = get_le64 (file + AT_LENGTH);
  if (length > BACKUP_BYTES_MAX ||
      bytes != HEADER_BYTES + length + TRAILER_BYTES)
    return refuse (
      why, why_size,
      "it has %zu bytes and should have %llu: it is cut off or "
      "damaged; " ANOTHER,
      bytes, (unsigned long long) (HEADER_BYTES + length + TRAILER_BYTES));
  if (file[AT_ENCRYPTED] &&
      !is_zero (file, bytes - TRAILER_BYTES + TAG_BYTES, bytes))
    return refuse (why, why_size, "it is damaged: " ANOTHER);
  if (file[AT_ENCRYPTED] && passphrase == NULL)
    return refuse (why, why_size, "it is encrypted: give its passphrase");
  if (!file[AT_ENCRYPTED] && passphrase)
    return refuse (why, why_size,
                   "it is not encrypted, so it may be another file than the "
                   "passphrase is for: if you trust it, restore it without a "
                   "passphrase");
  return 0;
}

static int
decrypt (const uint8_t *file, size_t length, const char *passphrase, char *text,
         char *why, size_t why_size)
{
  uint8_t tag[TAG_BYTES];
  struct keys keys;
  int r = 0;

  memcpy (tag, file + HEADER_BYTES + length, sizeof tag);
  if (!derive (passphrase, file, &keys))
    return refuse (why, why_size,
                   "there is no memory for scrypt: free some, and try again");
  if (CRYPTO_memcmp (keys.check, file + AT_CHECK, CHECK_BYTES) != 0)
    r = refuse (why, why_size,
                "the passphrase is wrong, or its header is damaged: give the "
                "right one, or " ANOTHER);
  else if (!gcm (false, &keys, file, file + HEADER_BYTES, (uint8_t *) text,
                 length, tag))
    r = refuse (why, why_size, "it is damaged: " ANOTHER);
  OPENSSL_cleanse (&keys, sizeof keys);
  return r;
}

char *
backup_unpack (const uint8_t *file, size_t bytes, const char *passphrase,
               char *why, size_t why_size)
{
  uint8_t hash[32];
  size_t length;
  char *text;
  int r = check (file, bytes, passphrase, why, why_size);

  if (r == -1)
    return NULL;
  length = bytes - HEADER_BYTES - TRAILER_BYTES;
  text = malloc (length + 1);
  if (text == NULL) {
    refuse (why, why_size, "there is no memory for its %zu bytes", length);
    return NULL;
  }
  if (file[AT_ENCRYPTED])
    r = decrypt (file, length, passphrase, text, why, why_size);
  else if (EVP_Digest (file, HEADER_BYTES + length, hash, NULL, EVP_sha256 (),
                       NULL) != 1 ||
           memcmp (hash, file + HEADER_BYTES + length, sizeof hash) != 0)
    r = refuse (why, why_size, "it is damaged: " ANOTHER);
  else
    memcpy (text, file + HEADER_BYTES, length);
  if (r == -1) {
    OPENSSL_cleanse (text, length);
    free (text);
    return NULL;
  }
  text[length] = '\0';
  return text;
}
