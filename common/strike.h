/* strike.h: striking out what opens something, or deceives who reads it, before a text is
 * shown or kept.
 */

#ifndef WEFT_STRIKE_H
#define WEFT_STRIKE_H

/* Overwrite with asterisks each run of 48 hex digits or more: every secret of
 * Weft has one of 64, and a fragment of fewer than 48 reveals too little.
 * Useful words have shorter runs: serials of certificates, names of disks and
 * UUIDs have 32 at most.
 */
void strike_secrets (char *text);

/* Replace what a terminal or a page would take for orders by a question mark each, before a
 * text that may be anybody's is shown: controls (C0, DEL and C1, of which U+009B begins an
 * escape sequence), marks that turn the direction of writing, and bytes that are no UTF-8.
 */
void strike_controls (char *text);

#endif /* WEFT_STRIKE_H */
