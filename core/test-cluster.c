#include <config.h>

#include "cluster.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
