/* fuzz-replies.c: weftd's replies, whose words outlive an input. */

#include <config.h>

#include "fuzz-loop.h"
#include "server/replies.c"

void
fuzz_replies_words (void)
{
  for (unsigned i = 0; i < MEMBER_STATES; i++)
    json_decref (state_word ((enum member_state) i));
}
