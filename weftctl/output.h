/* output.h: weftctl's output.
 *
 * A table's first row is its heading.  Columns are as wide as their widest
 * cell; in a pipe the same text comes out, without colours.  Control characters
 * are removed from text that comes from elsewhere, so that a name can't drive
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

/* The headings, separated by "|". A heading that begins with '>' makes a column
 * that is aligned to the right; a heading with '!' makes a column of states,
 * coloured by their words.
 */
struct table *output_table_new (const char *headings);
/* The next cell, row by row. */
void output_table_cell (struct table *t, const char *format, ...)
  __attribute__ ((format (printf, 2, 3)));
/* Cells of what an object has: the keys, separated by '|', each with what it is
 * where it is no text: "session.node|pid:number|last_heard_ms:age|data_bytes:size";
 * also :rate, bytes a second; :count, the length of a list; :part, OFFSET+LENGTH, or by leases; and
 * :writers, the nodes of the sessions in a list that write.
 */
void output_table_cells (struct table *t, const json_t *object,
                         const char *keys);
/* Print it, `indent` spaces from the left, and free it. */
void output_table_print (struct table *t, unsigned indent);
/* All of this for a list: a row has the cells of `keys`, and then those that `row`
 * puts (NULL: none).
 */
void output_table_of (const json_t *list, const char *headings,
                      const char *keys,
                      void (*row) (struct table *t, const json_t *item),
                      unsigned indent);

/* Bytes for people: "512", "64K", "1.5G"; rounded down to one digit after the
 * point.
 */
#define SIZE_TEXT_BYTES 24
const char *output_size (uint64_t bytes, char text[SIZE_TEXT_BYTES]);
/* The same, with the exact number when rounding has hidden something. */
#define SIZE_TEXT_EXACT_BYTES 56
const char *output_size_exact (uint64_t bytes,
                               char text[SIZE_TEXT_EXACT_BYTES]);

/* The same a second: "-" for 0. */
const char *output_rate (uint64_t rate, char text[SIZE_TEXT_BYTES]);

/* Milliseconds ago, for people: "0.4 s", "12 s", "3 min", "2 h", "5 d". */
#define AGE_TEXT_BYTES 24
const char *output_age (uint64_t ms, char text[AGE_TEXT_BYTES]);

/* A string that is safe to show, without control characters for a terminal: it
 * is replaced in the JSON, too, and an earlier pointer from json_string_value
 * to it is no longer valid.  "-" when it is missing or empty.
 */
const char *output_json_shown (json_t *string);
/* A member of a JSON object: as it may be shown (output_json_shown), and 0 when it is not there. */
const char *output_json_text (const json_t *object, const char *key);
uint64_t output_json_number (const json_t *object, const char *key);
/* Is it true; is it a text? */
bool output_json_yes (const json_t *object, const char *key);
bool output_json_has (const json_t *object, const char *key);

/* A whole JSON text on standard output. */
void output_json (const json_t *json);
/* The same, with jansson's flags for its layout. */
void output_json_as (const json_t *json, size_t flags);

/* A list of sentences, each a line; to standard error where standard output is
 * for JSON.
 */
void output_lines (const json_t *lines, bool to_stderr);

/* A line of output with a state in it: coloured by the word `state`. */
const char *output_color_start (const char *state);
const char *output_color_end (const char *state);
/* Put more behind a text, as far as its room goes. */
void output_text_add (char *text, size_t size, const char *format, ...)
  __attribute__ ((format (printf, 3, 4)));
/* How many thousandths of `total` are done; -1: nobody knows. */
int output_permille_of (uint64_t done, uint64_t total);

/* Ask on the terminal.  Returns 1 yes, 0 no, -1 there is no terminal. */
int output_ask_yes (const char *question);
/* Ask for `expected` to be typed. */
int output_ask_typed (const char *question, const char *expected);
/* Ask for a word, or for a secret, which is not shown.  To be freed; NULL:
 * there is no terminal.
 */
char *output_ask_word (const char *question, bool secret);

#endif /* WEFT_OUTPUT_H */
