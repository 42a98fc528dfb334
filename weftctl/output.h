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
/* Cells of what an object has: the keys, separated by '|', each with what it is
 * where it is no text: "session.node|pid:number|last_heard_ms:age|data_bytes:size";
 * also :rate, bytes a second; :count, the length of a list; :part, OFFSET+LENGTH, or by leases; and
 * :writers, the nodes of the sessions in a list that write.
 */
void table_cells (struct table *t, const json_t *object, const char *keys);
/* Print it, `indent` spaces from the left, and free it. */
void table_print (struct table *t, unsigned indent);
/* All of this for a list: a row has the cells of `keys`, and then those that `row`
 * puts (NULL: none).
 */
void table_of (const json_t *list, const char *headings, const char *keys,
               void (*row) (struct table *t, const json_t *item),
               unsigned indent);

/* Bytes for people: "512", "64K", "1.5G"; rounded down to one digit after the
 * point.
 */
#define SIZE_TEXT_BYTES 24
const char *size_text (uint64_t bytes, char text[SIZE_TEXT_BYTES]);
/* The same, with the exact number when rounding has hidden something. */
#define SIZE_TEXT_EXACT_BYTES 56
const char *size_text_exact (uint64_t bytes, char text[SIZE_TEXT_EXACT_BYTES]);

/* The same a second: "-" for 0. */
const char *rate_text (uint64_t rate, char text[SIZE_TEXT_BYTES]);

/* Milliseconds ago, for people: "0.4 s", "12 s", "3 min", "2 h", "5 d". */
#define AGE_TEXT_BYTES 24
const char *age_text (uint64_t ms, char text[AGE_TEXT_BYTES]);

/* A member of a JSON object: "-" and 0 when it is not there. */
const char *json_text (const json_t *object, const char *key);
uint64_t json_number (const json_t *object, const char *key);
/* Is it true; is it a text? */
bool json_yes (const json_t *object, const char *key);
bool json_has (const json_t *object, const char *key);

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
/* Put more behind a text, as far as its room goes. */
void text_add (char *text, size_t size, const char *format, ...)
  __attribute__ ((format (printf, 3, 4)));
/* How many thousandths of `total` are done; -1: nobody knows. */
int permille_of (uint64_t done, uint64_t total);

/* Ask on the terminal.  Returns 1 yes, 0 no, -1 there is no terminal. */
int ask_yes (const char *question);
/* Ask for `expected` to be typed. */
int ask_typed (const char *question, const char *expected);
/* Ask for a word, or for a secret, which is not shown.  To be freed; NULL:
 * there is no terminal.
 */
char *ask_word (const char *question, bool secret);

#endif /* WEFT_OUTPUT_H */
