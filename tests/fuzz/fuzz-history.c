/* fuzz-history.c: weftd's history, without a thread of its own. */

#include <config.h>

#include "fuzz-thread.h"
#include "server/history.c"
