#include <config.h>

#include "token.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
