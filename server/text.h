/* text.h: small things as text and JSON: UUIDs, hex, times. */

#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* Why a request is refused. */
struct refusal {
  int status;
  char field[80];   /* "": none */
  const char *code; /* NULL: none */
  char why[512];    /* a sentence */
};
/* Say it.  field, code may be NULL.  Returns false. */
bool text_refuse (struct refusal *r, int status, const char *field,
                  const char *code, const char *fmt, ...)
  __attribute__ ((format (printf, 5, 6)));
/* 2 * count digits, and the end of the text. */
void text_hex_print (const uint8_t *bytes, size_t count, char *text);
json_t *text_uuid (const uint8_t uuid[16]);
json_t *text_uuid_or_null (const uint8_t uuid[16]); /* null when zero */
json_t *text_hex (const uint8_t *bytes, size_t count);
json_t *text_session (uint64_t id); /* 16 hex digits */
json_t *text_number (uint64_t n);   /* the largest of JSON's stands for more */
json_t *text_rate (double x);       /* to three places */
/* "2026-01-02T03:04:05.678Z"; null for 0. */
json_t *text_time (uint64_t wall_ms);
/* Text that may have been cut within a character: invalid UTF-8 becomes '?'.
 * Never NULL.
 */
json_t *text_string (const char *text);
/* The same; null when "" or NULL. */
json_t *text_or_null (const char *text);

#endif /* WEFT_TEXT_H */
