/* test-fenced.c: a fenced client is not admitted, whatever number it sends. */

#include <config.h>

#include <assert.h>
#include <stddef.h>

#include "base/bounds.h"
#include "host/fenced.h"

static const uint64_t numbers[] = {
  0,
  1,
  2,
  9,
  10,
  11,
  EPOCH_MAX - 1,
  EPOCH_MAX,
  EPOCH_MAX + 1,
  INT64_MAX,
  UINT64_MAX - 1,
  UINT64_MAX,
};
#define NUMBERS (sizeof numbers / sizeof numbers[0])

int
main (void)
{
  for (size_t i = 0; i < NUMBERS; i++) {
    uint64_t says = numbers[i];

    for (size_t j = 0; j < NUMBERS; j++) {
      /* The node is fenced now. */
      assert (fenced_is (says, EPOCH_MAX, numbers[j]) == FENCED_NOW);
      /* It was fenced, and is admitted again. */
      for (uint64_t below = 0; below < 12; below++) {
        enum fenced r = fenced_is (says, below, numbers[j]);

        assert ((r == FENCED_NOW) == (says < below));
        assert ((r == FENCED_NOT) == (says >= below && says <= numbers[j]));
      }
    }
  }
  return 0;
}
