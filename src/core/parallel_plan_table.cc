#include "parallel_plan_table.h"

namespace trnscout {
namespace {

#include "parallel_plan_table.inc"

}  // namespace

const ParallelPlanTable& parallel_plan_table() { return kTable; }

}  // namespace trnscout
