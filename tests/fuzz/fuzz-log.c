/* fuzz-log.c: what weftd says to the journal, which nobody reads here: hundreds of lines a
 * second would hide what the fuzzer says.
 */

#include <config.h>

#include <stdio.h>

static char line[4096];

#define fprintf(file, ...) snprintf (line, sizeof line, __VA_ARGS__)
#include "server/log.c"
