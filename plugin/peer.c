#include <config.h>

#include "peer.h"
