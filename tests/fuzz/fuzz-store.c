/* fuzz-store.c: weftd's database in memory, without a thread of its own. */

#include <config.h>

#include "fuzz-sqlite.h"
#include "fuzz-thread.h"
#include "server/store/store.c"
