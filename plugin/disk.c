#include <config.h>

#include "disk.h"
