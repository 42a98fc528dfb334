#include <config.h>

#include "batch.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
