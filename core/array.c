#include <config.h>

#include "array.h"
