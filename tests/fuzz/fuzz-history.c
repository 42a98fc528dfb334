/* fuzz-history.c: weftd's history in memory, without a thread of its own. */

#include <config.h>

#include "fuzz-sqlite.h"
#include "fuzz-thread.h"
#include "server/store/history.c"
