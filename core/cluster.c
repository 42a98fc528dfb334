#include <config.h>

#include "cluster.h"
