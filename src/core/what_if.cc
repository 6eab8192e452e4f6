#include "trnscout/what_if.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "printable.h"

namespace trnscout {

std::vector<std::string> what_if_names() {
  return {"replicate-kv", "pad-vocab", "split-fused-qkv"};
}

absl::StatusOr<WhatIf> parse_what_if(absl::Span<const std::string> names) {
  WhatIf out;
  for (const std::string& name : names) {
    if (name == "replicate-kv") {
      out.kv_heads = KvHeadLayout::kReplicated;
    } else if (name == "pad-vocab") {
      out.vocab = VocabLayout::kPadded;
    } else if (name == "split-fused-qkv") {
      out.fused = FusedLayout::kSplit;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: there is no what-if ", printable(name), ", only ",
                       absl::StrJoin(what_if_names(), ", ")));
    }
  }
  return out;
}

}  // namespace trnscout
