#include <config.h>

#include "batch.h"
