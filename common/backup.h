/* backup.h: the file of `weftctl backup`, which `weftd --restore` reads.
 *
 *     0   8  "WEFTBKUP"
 *     8   1  version: 1
 *     9   1  encrypted: 0 no, 1 by a passphrase
 *    10   1  scrypt: log2 of N
 *    11   1  scrypt: r
 *    12   1  scrypt: p
 *    13   3  0
 *    16  16  salt of scrypt
 *    32  12  nonce of AES-256-GCM
 *    44   4  0
 *    48   8  bytes of the text, little-endian
 *    56  16  tells a wrong passphrase from a damaged file
 *    72   8  0
 *    80      the text: JSON, or that encrypted
 *     -  32  not encrypted: SHA-256 of all before; encrypted: the tag of AES-256-GCM,
 *            which covers the header, too, and 16 bytes of 0
 *
 * scrypt makes 48 bytes of the passphrase: the key of AES, and the 16 bytes at 56.  Where
 * the file is not encrypted, the fields of scrypt and AES are 0.
 */

#ifndef WEFT_BACKUP_H
#define WEFT_BACKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BACKUP_BYTES_MAX (UINT64_C (256) << 20)

/* Is this the beginning of such a file? */
bool backup_is (const uint8_t *file, size_t bytes);
/* Has it a whole header, which says that the file is encrypted? */
bool backup_encrypted (const uint8_t *file, size_t bytes);

/* Make the file; passphrase NULL: without encryption.  malloc'ed; NULL: no memory. */
uint8_t *backup_pack (const char *text, size_t text_bytes,
                      const char *passphrase, size_t *bytes);
/* Read it.  passphrase NULL: the caller has none; a file that is not encrypted is read
 * only without one, since anybody may have made that file.  The text ends in a 0;
 * malloc'ed.  NULL: a sentence in why.
 */
char *backup_unpack (const uint8_t *file, size_t bytes, const char *passphrase,
                     char *why, size_t why_size);

#endif /* WEFT_BACKUP_H */
