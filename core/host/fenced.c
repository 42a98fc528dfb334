/* fenced.c: see fenced.h. */

#include <config.h>

#include "base/bounds.h"
#include "fenced.h"

enum fenced
fenced_is (uint64_t says, uint64_t below, uint64_t newest)
{
  if (below >= EPOCH_MAX || says < below)
    return FENCED_NOW;
  return says > newest ? FENCED_UNKNOWN : FENCED_NOT;
}
