/* auth-password.c: hashes of passwords, by scrypt: slow and large on purpose,
 * so that a stolen database is of little value.  A few are computed at a time;
 * when many requests wait already, further ones are refused.  Strangers wait in
 * a queue of their own, behind known callers: so they delay only each other.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "auth-internal.h"
#include "log.h"

/* 32 MiB, and about 100 ms. */
#define LOG_N 15
#define R 8
#define P 1
#define MEMORY_BYTES_MAX (UINT64_C (1) << 30)

#define AT_A_TIME 2
#define WAITING_MAX 32 /* of each sort */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static unsigned waiting[2], running; /* waiting: strangers, known */

bool
password_begin (bool known)
{
  bool fine;

  pthread_mutex_lock (&lock);
  fine = waiting[known] < WAITING_MAX;
  if (fine) {
    waiting[known]++;
    while (running == AT_A_TIME || (!known && waiting[true] > 0))
      pthread_cond_wait (&left, &lock);
    waiting[known]--;
    running++;
    if (known)
      pthread_cond_broadcast (&left); /* strangers may have waited for this */
  }
  pthread_mutex_unlock (&lock);
  return fine;
}

void
password_end (void)
{
  pthread_mutex_lock (&lock);
  running--;
  pthread_cond_broadcast (&left); /* wake all; one of them may go on */
  pthread_mutex_unlock (&lock);
}

static void
derive (const char *text, const struct auth_password *p, uint8_t key[32])
{
  if (EVP_PBE_scrypt (text, strlen (text), p->salt, sizeof p->salt,
                      UINT64_C (1) << p->log_n, p->r, p->p, MEMORY_BYTES_MAX,
                      key, 32) != 1) {
    log_line (CLUSTER_ERROR, "scrypt failed for want of memory: stopped");
    abort ();
  }
}

void
password_make (const char *text, struct auth_password *p)
{
  p->log_n = LOG_N;
  p->r = R;
  p->p = P;
  if (RAND_bytes (p->salt, sizeof p->salt) != 1)
    abort ();
  derive (text, p, p->key);
}

bool
password_is (const char *text, const struct auth_password *p)
{
  static const struct auth_password nobodys = { .log_n = LOG_N,
                                                .r = R,
                                                .p = P };
  uint8_t key[32];
  bool same;

  derive (text, p ? p : &nobodys, key);
  same = CRYPTO_memcmp (key, (p ? p : &nobodys)->key, sizeof key) == 0;
  OPENSSL_cleanse (key, sizeof key);
  return p && same;
}
