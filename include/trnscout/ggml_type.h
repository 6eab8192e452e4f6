#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace trnscout {

/// An element type of GGUF files: rows of blocks, all of one size.
struct GgmlType {
  std::uint32_t id = 0;    ///< as files have it
  absl::string_view name;  ///< "Q4_K"
  std::int64_t block_elements = 1;
  std::int64_t block_bytes = 0;
};

/// Finds the type that files call `id`, or null.
///
/// Source: ggml-org/llama.cpp: ggml/include/ggml.h and ggml/src/ggml-common.h;
///         gguf-py/gguf/constants.py of gguf 0.19.0.
const GgmlType* find_ggml_type(std::uint32_t id);

/// Finds the type of that name, or null.
const GgmlType* find_ggml_type(absl::string_view name);

/// Every type that a file may hold, by id.
std::vector<GgmlType> ggml_types();

}  // namespace trnscout
