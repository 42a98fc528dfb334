#include <config.h>

#include "token.h"
