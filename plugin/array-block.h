/* array-block.h: the array engine (core/array/array.h) as a block. */

#ifndef WEFT_ARRAY_BLOCK_H
#define WEFT_ARRAY_BLOCK_H

#include <stdint.h>

#include "array/array.h"
#include "block.h"

/* `size`: bytes of the array.  NULL: out of memory; else the array is the block's. */
struct block *array_block_new (struct array *array, uint64_t size);

#endif /* WEFT_ARRAY_BLOCK_H */
