/* auth-words.c: secrets, and how callers and roles are called. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "auth-internal.h"
#include "log.h"
#include "text.h"

void
auth_words_secret_hash (const char *text, uint8_t hash[AUTH_HASH_BYTES])
{
  if (EVP_Digest (text, strlen (text), hash, NULL, EVP_sha256 (), NULL) != 1)
    abort ();
}

void
auth_words_secret_make (char text[AUTH_SECRET_BYTES],
                        uint8_t hash[AUTH_HASH_BYTES])
{
  uint8_t random[32];

  if (RAND_bytes (random, sizeof random) != 1) {
    log_line (CLUSTER_ERROR, "no random numbers from OpenSSL: stopped");
    abort ();
  }
  text_hex_print (random, sizeof random, text);
  OPENSSL_cleanse (random, sizeof random);
  auth_words_secret_hash (text, hash);
}

/* Browsers take the prefix with Secure, without a Domain and from / only. */
const char *
auth_cookie_name (bool tls)
{
  return tls ? "__Host-weft" : "weft";
}

void
auth_caller_words (const struct caller *c, char text[AUTH_CALLER_BYTES])
{
  if (c->via == VIA_NONE)
    snprintf (text, AUTH_CALLER_BYTES, "somebody at %s (weftd needs no login)",
              c->address);
  else
    snprintf (text, AUTH_CALLER_BYTES, "%s %s at %s",
              c->via == VIA_TOKEN ? "token" : "administrator", c->name,
              c->address);
}

const char *
auth_via_word (enum auth_via via)
{
  static const char *const words[] = { "none", "login", "token",
                                       "certificate" };

  return words[via];
}

const char *
auth_role_word (enum auth_role role)
{
  static const char *const words[] = { NULL, "node", "viewer", "admin" };

  return words[role];
}

int
auth_role_parse (const char *word)
{
  return strcmp (word, "viewer") == 0  ? ROLE_VIEWER
         : strcmp (word, "admin") == 0 ? ROLE_ADMIN
                                       : -1;
}
