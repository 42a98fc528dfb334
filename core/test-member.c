#include <config.h>

#include "member.h"

int
main (void)
{
  return 1; /* nothing is tested yet */
}
