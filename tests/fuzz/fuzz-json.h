/* fuzz-json.h: cheap memory for jansson, which takes most of what is allocated.  As with
 * the sanitizer's own, who reads over its end or when it was freed is seen, and so is
 * what is never freed; but not by whom it was allocated.
 */

#ifndef WEFT_FUZZ_JSON_H
#define WEFT_FUZZ_JSON_H

/* Before each input; of the one before nothing may be left. */
void fuzz_json_begin (void);

#endif /* WEFT_FUZZ_JSON_H */
