/* fuzz-history-view.c: what weftd reads of its history, in memory. */

#include <config.h>

#include "fuzz-sqlite.h"
#include "server/history-view.c"
