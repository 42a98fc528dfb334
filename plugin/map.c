#include <config.h>

#include "map.h"
