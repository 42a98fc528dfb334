#include <config.h>

#include "array.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
