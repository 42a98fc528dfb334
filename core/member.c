#include <config.h>

#include "member.h"
