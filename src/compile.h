/* The inside of the compiler: verify, roles, lower, place, emit. */
#ifndef TCMMA_COMPILE_H
#define TCMMA_COMPILE_H

#include "lower.h"
#include "machine.h"
#include "roles.h"
#include "tc.h"

#endif
