#include <config.h>

#include "format.h"
