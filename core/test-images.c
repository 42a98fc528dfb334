#include <config.h>

#include "images.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
