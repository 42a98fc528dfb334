/* fuzz-json.h: cheap memory for jansson, which takes most of what is allocated.  As with
 * the sanitizer's own, who reads over its end or when it was freed is seen, and so is
 * what is never freed; but not by whom it was allocated.
 */

#ifndef WEFT_FUZZ_JSON_H
#define WEFT_FUZZ_JSON_H

/* Around each input; of it nothing may be left. */
void fuzz_json_begin (void);
void fuzz_json_end (void);

#endif /* WEFT_FUZZ_JSON_H */
