#pragma once

// Everything public. Programs that link trnscout::core alone include the nouns
// they use: `device.h` needs trnscout::runtime at link time.

#include "trnscout/checkpoint.h"
#include "trnscout/device.h"
#include "trnscout/diagnosis.h"
#include "trnscout/drift.h"
#include "trnscout/fragility.h"
#include "trnscout/ggml_type.h"
#include "trnscout/gguf.h"
#include "trnscout/logit_match.h"
#include "trnscout/logit_view.h"
#include "trnscout/mapped_checkpoint.h"
#include "trnscout/memory_ledger.h"
#include "trnscout/model_config.h"
#include "trnscout/parallel_plan.h"
#include "trnscout/planned_model.h"
#include "trnscout/repetition.h"
#include "trnscout/run_record.h"
#include "trnscout/shard_plan.h"
#include "trnscout/tensor_view.h"
#include "trnscout/token_match.h"
#include "trnscout/topology.h"
#include "trnscout/verdict.h"
#include "trnscout/what_if.h"
