#pragma once

// Everything public. Programs that link trnscout::core alone include the nouns
// they use: `device.h` needs trnscout::runtime at link time.

#include "trnscout/checkpoint.h"
#include "trnscout/device.h"
#include "trnscout/memory_ledger.h"
