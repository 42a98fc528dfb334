#include <config.h>

#include "role.h"
