// Prints what a checkpoint weighs, from its headers alone, and whether one
// Trainium2 core holds it.

#include <cstdio>

#include "trnscout/checkpoint.h"
#include "trnscout/memory_ledger.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: inspect_checkpoint DIRECTORY\n", stderr);
    return 2;
  }
  const auto checkpoint = trnscout::Checkpoint::open(argv[1]);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", checkpoint.status().ToString().c_str());
    return 1;
  }
  std::printf("%zu tensors, %s; one core holds %s\n",
              checkpoint->tensors().size(),
              trnscout::format_bytes(checkpoint->total_bytes()).c_str(),
              trnscout::format_bytes(trnscout::kTrn2CoreMemoryBytes).c_str());
  return checkpoint->total_bytes() > trnscout::kTrn2CoreMemoryBytes ? 1 : 0;
}
