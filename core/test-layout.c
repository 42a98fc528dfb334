#include <config.h>

#include "layout.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
