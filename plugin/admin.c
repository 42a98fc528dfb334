#include <config.h>

#include "admin.h"
