/* fuzz-history-view.c: weftd's reads of its history, in memory. */

#include <config.h>

#include "fuzz-sqlite.h"
#include "server/store/history-view.c"
