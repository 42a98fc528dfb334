/* strike.h: striking out what opens something, before a text is shown or kept. */

#ifndef WEFT_STRIKE_H
#define WEFT_STRIKE_H

/* Overwrite with asterisks each run of 48 hex digits or more: every secret of Weft holds
 * one of 64, and one that was cut off before so many tells nobody the rest.  Of what
 * people need to see nothing does: serials of certificates, names of disks and UUIDs have
 * 32 at most.
 */
void strike_secrets (char *text);

#endif /* WEFT_STRIKE_H */
