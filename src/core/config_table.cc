#include "config_table.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace trnscout {
namespace {

struct RowText {
  absl::string_view key;
  absl::string_view text;
};

// Sorted by key.
constexpr RowText kRows[] = {
#include "config_table.inc"
};

constexpr std::pair<absl::string_view, absl::string_view> kUsualNames[] = {
    {"hidden", "hidden_size"},
    {"layers", "num_hidden_layers"},
    {"q_heads", "num_attention_heads"},
    {"kv_heads", "num_key_value_heads"},
    {"vocab", "vocab_size"},
    {"intermediate", "intermediate_size"},
    {"positions", "max_position_embeddings"},
    {"experts", "num_experts"},
    {"experts_per_token", "num_experts_per_tok"},
    {"moe_intermediate", "moe_intermediate_size"},
    {"shared_experts", "n_shared_experts"},
    {"shared_intermediate", "shared_expert_intermediate_size"},
    {"tie", "tie_word_embeddings"},
    {"window", "sliding_window"},
    {"chunk", "attention_chunk_size"},
    {"use_window", "use_sliding_window"},
    {"window_from", "max_window_layers"},
    {"kv_rank", "kv_lora_rank"},
    {"rope_dim", "qk_rope_head_dim"},
    {"nope_dim", "qk_nope_head_dim"},
    {"value_dim", "v_head_dim"},
    {"index_dim", "index_head_dim"},
    {"shared_kv_layers", "num_kv_shared_layers"},
    {"new_decoder", "new_decoder_architecture"},
    {"image_tokens", "mm_tokens_per_image"},
    {"merge", "spatial_merge_size"},
    {"ssm_expand", "mamba_expand"},
    {"ssm_heads", "mamba_n_heads"},
    {"ssm_head_dim", "mamba_d_head"},
    {"ssm_state", "mamba_d_state"},
    {"ssm_groups", "mamba_n_groups"},
    {"ssm_kernel", "mamba_d_conv"},
    {"ssm_inner", "mamba_d_ssm"},
    {"delta_v_heads", "linear_num_value_heads"},
    {"delta_k_heads", "linear_num_key_heads"},
    {"delta_k_dim", "linear_key_head_dim"},
    {"delta_v_dim", "linear_value_head_dim"},
    {"delta_kernel", "linear_conv_kernel_dim"},
    {"conv_kernel", "conv_L_cache"},
    {"window_kv_heads", "swa_num_key_value_heads"},
    {"window_head_dim", "swa_head_dim"},
    {"loop_from", "loop_layer_index_start"},
    {"loop_to", "loop_layer_index_end"},
    {"loop_passes", "loop_num_passes"},
    {"outer_cycles", "H_cycles"},
    {"inner_cycles", "L_cycles"},
    {"lru_kernel", "conv1d_width"},
    {"cca_first", "cca_time0"},
    {"cca_second", "cca_time1"},
    {"ple_streams", "hc_count"},
    {"ple_kernel", "ple_conv_kernel_size"},
    {"ple_ngram", "ngram_size"},
    {"types", "layer_types"},
};

// A field that is not listed has the same name in files.
absl::string_view usual_name(absl::string_view field) {
  for (const auto& [ours, theirs] : kUsualNames) {
    if (ours == field) return theirs;
  }
  return field;
}

}  // namespace

ConfigRow::ConfigRow(absl::string_view key, absl::string_view text)
    : key_(key) {
  for (const absl::string_view token : absl::StrSplit(text, ' ')) {
    const std::size_t equals = token.find('=');
    const std::size_t colon = token.find(':');
    if (equals != absl::string_view::npos &&
        token.substr(0, equals) == "class") {
      class_name_ = token.substr(equals + 1);
      continue;
    }
    ConfigField out;
    if (equals < colon) {
      out.field = token.substr(0, equals);
      out.names =
          absl::StrSplit(token.substr(equals + 1, colon - equals - 1), ',');
    } else {
      out.field = token.substr(0, colon);
      out.names = {usual_name(out.field)};
    }
    if (colon != absl::string_view::npos)
      out.fallback = token.substr(colon + 1);
    std::int64_t number = 0;
    if (out.field == "set" && absl::SimpleAtoi(out.fallback, &number)) {
      overrides_.emplace_back(out.names.front(), number);
    } else {
      fields_.push_back(std::move(out));
    }
  }
}

const ConfigField* ConfigRow::find(absl::string_view field) const {
  for (const ConfigField& candidate : fields_) {
    if (candidate.field == field) return &candidate;
  }
  return nullptr;
}

absl::string_view config_row_text(absl::string_view key) {
  const auto* const found =
      std::lower_bound(std::begin(kRows), std::end(kRows), key,
                       [](const RowText& row, absl::string_view wanted) {
                         return row.key < wanted;
                       });
  return found == std::end(kRows) || found->key != key ? absl::string_view()
                                                       : found->text;
}

}  // namespace trnscout
