/* fuzz-store.c: weftd's database, without a thread of its own. */

#include <config.h>

#include "fuzz-thread.h"
#include "server/store.c"
