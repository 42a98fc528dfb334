/* strike.h: striking out what opens something, before a text is shown or kept. */

#ifndef WEFT_STRIKE_H
#define WEFT_STRIKE_H

/* Overwrite with asterisks each run of 32 hex digits or more: every secret of Weft
 * holds one, also where it was cut off (a half of it tells nothing), and of what
 * people need to see, as UUIDs and sessions, nothing does.
 */
void strike_secrets (char *text);

#endif /* WEFT_STRIKE_H */
