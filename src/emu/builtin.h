/* Functions that no PTX defines: vprintf, __assertfail, malloc, free. */
#ifndef TCMMA_EMU_BUILTIN_H
#define TCMMA_EMU_BUILTIN_H

#include "machine.h"

/* NULL for a name that is none; the frame it runs with is that of the callee. */
emu_execute emu_builtin_named(const char *name);

#endif
