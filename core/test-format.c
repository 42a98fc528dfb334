#include <config.h>

#include "format.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
