#include <config.h>

#include "images.h"
