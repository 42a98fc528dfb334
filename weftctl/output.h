/* output.h: what weftctl prints.
 *
 * A table's first row is its heading.  Columns are as wide as their widest
 * cell; in a pipe the same text comes out, without colours.  Whatever came
 * from elsewhere is freed of control characters, so that a name can't drive
 * the terminal.
 */

#ifndef WEFT_OUTPUT_H
#define WEFT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* Colours on a terminal unless they are unwanted. */
void output_init (bool no_color);

struct table;

/* The headings, separated by '|'; one that begins with '>' makes a column
 * that is aligned to the right, one with '!' a column of states, coloured by
 * what they say.
 */
struct table *table_new (const char *headings);
/* The next cell, row by row. */
void table_cell (struct table *t, const char *format, ...)
  __attribute__ ((format (printf, 2, 3)));
/* Print it, `indent` spaces from the left, and free it. */
void table_print (struct table *t, unsigned indent);
size_t table_rows (const struct table *t);

/* Bytes for people: "512", "64K", "1.5G"; rounded down to one digit after the
 * point.
 */
#define SIZE_TEXT_BYTES 24
const char *size_text (uint64_t bytes, char text[SIZE_TEXT_BYTES]);
/* The same, with the exact number when rounding has hidden something. */
#define SIZE_TEXT_EXACT_BYTES 56
const char *size_text_exact (uint64_t bytes, char text[SIZE_TEXT_EXACT_BYTES]);

/* Milliseconds ago, for people: "0.4 s", "12 s", "3 min", "2 h", "5 d". */
#define AGE_TEXT_BYTES 24
const char *age_text (uint64_t ms, char text[AGE_TEXT_BYTES]);

/* A member of a JSON object: "-" and 0 when it is not there. */
const char *json_text (const json_t *object, const char *key);
uint64_t json_number (const json_t *object, const char *key);

/* A whole JSON text on standard output. */
void output_json (const json_t *json);

/* A list of sentences, each a line; to standard error where standard output is
 * for JSON.
 */
void output_lines (const json_t *lines, bool to_stderr);

/* A line of output with a state in it: coloured by the word `state`. */
const char *color_start (const char *state);
const char *color_end (const char *state);

/* text without control characters, in place. */
void text_clean (char *text);

/* Ask on the terminal.  Returns 1 yes, 0 no, -1 there is no terminal. */
int ask_yes (const char *question);
/* Ask for `expected` to be typed. */
int ask_typed (const char *question, const char *expected);
/* Ask for a word, or for a secret, which is not shown.  To be freed; NULL:
 * there is no terminal.
 */
char *ask_word (const char *question, bool secret);

#endif /* WEFT_OUTPUT_H */
