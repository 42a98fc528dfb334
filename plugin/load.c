#include <config.h>

#include "load.h"
