/* token.h: tokens, by which a host opens a member's door (docs/DESIGN.md 5.2).
 *
 * weftd mints a token, the host shows it in the NBD export name
 * "DOOR/TOKEN", the member verifies it.  A token is text of at most
 * TOKEN_BYTES_MAX bytes out of [0-9a-zA-Z.-]: array, member, session, rights,
 * epoch, what it is bound to, then an HMAC-SHA-256 over all of that with the key
 * of the member's process.
 */

#ifndef WEFT_TOKEN_H
#define WEFT_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bounds.h"

struct token {
  uint8_t array[16];  /* UUID */
  uint8_t member[16]; /* UUID of the disk */
  uint64_t session;
  bool writable;
  uint64_t epoch;
  /* For a joining member: it reads only data with a copy at its place in the
   * array.
   */
  bool joins;
  unsigned place;
  /* The node whose certificate the client must show; "": none is asked for. */
  char node[NAME_BYTES_MAX + 1];
  /* The process of that node: the joining disk's UUID, else the array's name.  A
   * client with the node's own certificate is also accepted.  "": any process.
   */
  char process[NAME_BYTES_MAX + 1];
};

/* Derive the key of one process (`instance`) from the key of the member that it
 * serves.  A token that is made with it opens nothing once the member was started
 * again.
 */
void token_key (const uint8_t key[KEY_BYTES], const char *instance,
                uint8_t of_process[KEY_BYTES]);

/* Write the token as text. */
void token_mint (const struct token *t, const uint8_t key[KEY_BYTES],
                 char text[TOKEN_BYTES_MAX + 1]);

/* Read a token and check its MAC in constant time.  Returns 0, or -1 with a
 * constant sentence in *why; *t is written only on success.
 */
int token_verify (const char *text, const uint8_t key[KEY_BYTES],
                  struct token *t, const char **why);

#endif /* WEFT_TOKEN_H */
