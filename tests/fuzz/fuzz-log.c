/* fuzz-log.c: weftd's messages to the journal are dropped here: hundreds of lines a
 * second would hide the fuzzer's messages.
 */

#include <config.h>

#include <stdio.h>

static char line[4096];

#define fprintf(file, ...) snprintf (line, sizeof line, __VA_ARGS__)
#include "server/log.c"
