#include <config.h>

#include "control.h"
