#include <config.h>

#include "layout.h"
