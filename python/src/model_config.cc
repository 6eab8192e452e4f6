#include "trnscout/model_config.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <string>
#include <utility>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

ModelConfig open(const std::filesystem::path& dir) {
  auto opened = [&dir] {
    const py::gil_scoped_release release;  // the file may lie on a slow disk
    return ModelConfig::open(dir);
  }();
  return unwrap(std::move(opened));
}

std::string cache_text(const LayerCache& self) {
  return py::str(
             "LayerCache({!r}, layer_type={!r}, kv_heads={}, key_dim={}, "
             "value_dim={}, window_tokens={})")
      .format(std::string(layer_cache_kind_name(self.kind)), self.layer_type,
              self.kv_heads, self.key_dim, self.value_dim, self.window_tokens);
}

std::string config_text(const ModelConfig& self) {
  return py::str(
             "ModelConfig({!r}, hidden={}, layers={}, q_heads={}, kv_heads={}, "
             "head_dim={}, vocab={})")
      .format(self.model_type, self.hidden, self.layers, self.q_heads,
              self.kv_heads, self.head_dim, self.vocab);
}

void bind_caches(py::module_& m) {
  py::class_<LayerCache>(m, "LayerCache",
                         "What one layer keeps for one sequence, in elements.")
      .def_property_readonly(
          "kind",
          [](const LayerCache& self) {
            return std::string(layer_cache_kind_name(self.kind));
          },
          "'none', 'full_attention', 'sliding_window', 'latent', 'state' or "
          "'hybrid'.")
      .def_readonly("layer_type", &LayerCache::layer_type,
                    "As Transformers names it.")
      .def_readonly("kv_heads", &LayerCache::kv_heads)
      .def_readonly("key_dim", &LayerCache::key_dim)
      .def_readonly("value_dim", &LayerCache::value_dim)
      .def_readonly("index_dim", &LayerCache::index_dim)
      .def_readonly("window_tokens", &LayerCache::window_tokens,
                    "0 is without end.")
      .def_readonly("token_bytes", &LayerCache::token_bytes,
                    "Of a token, whatever the dtype.")
      .def_readonly("block_tokens", &LayerCache::block_tokens,
                    "That one compressed entry stands for.")
      .def_readonly("block_dim", &LayerCache::block_dim)
      .def_readonly("open_dim", &LayerCache::open_dim,
                    "Of a token of a block that is not full.")
      .def_readonly("state", &LayerCache::state, "In the cache's dtype.")
      .def_readonly("state_bytes", &LayerCache::state_bytes,
                    "Whatever the dtype.")
      .def_readonly("counted", &LayerCache::counted,
                    "False where the size is not known.")
      .def_property_readonly("elements_per_token",
                             &LayerCache::elements_per_token)
      .def("__repr__", &cache_text);
  py::class_<CacheBytes>(m, "CacheBytes", "Bytes of a static cache.")
      .def_readonly("attention_bytes", &CacheBytes::attention_bytes)
      .def_readonly("state_bytes", &CacheBytes::state_bytes)
      .def_readonly("uncounted_layers", &CacheBytes::uncounted_layers)
      .def_property_readonly("total", &CacheBytes::total);
}

void bind_parts(py::module_& m) {
  py::class_<Quantization>(m, "Quantization", "How weights are stored.")
      .def_readonly("method", &Quantization::method, "Empty for none.")
      .def_readonly("bits", &Quantization::bits)
      .def_readonly("kept_modules", &Quantization::kept_modules)
      .def(
          "dequantized_on",
          [](const Quantization& self, const std::string& neuron_core) {
            return self.dequantized_on(neuron_core);
          },
          py::arg("neuron_core"),
          "Says whether weights take the plain dtype's bytes there.");
  py::class_<VisionConfig>(m, "VisionConfig", "The part that reads images.")
      .def_readonly("model_type", &VisionConfig::model_type)
      .def_readonly("hidden", &VisionConfig::hidden)
      .def_readonly("layers", &VisionConfig::layers)
      .def_readonly("image_tokens", &VisionConfig::image_tokens,
                    "Of one image; 0 where its size decides.");
}

}  // namespace

void bind_model_config(py::module_& m) {
  bind_caches(m);
  bind_parts(m);
  py::class_<ModelConfig>(m, "ModelConfig",
                          "What a config.json says of the language model in "
                          "it: one meaning a field, whatever the family.")
      .def_static(
          "parse",
          [](const std::string& json_text, const std::string& source_name) {
            return unwrap(ModelConfig::parse(json_text, source_name));
          },
          py::arg("json_text"), py::arg("source_name") = "config.json",
          "Reads the text of a config.json; raises InvalidArgumentError with "
          "field, value and rule.")
      .def_static("open", &open, py::arg("dir"), "Reads `dir`/config.json.")
      .def_readonly("model_type", &ModelConfig::model_type)
      .def_readonly("architectures", &ModelConfig::architectures)
      .def_readonly("text_path", &ModelConfig::text_path)
      .def_readonly("text_model_type", &ModelConfig::text_model_type)
      .def_readonly("hidden", &ModelConfig::hidden)
      .def_readonly("layers", &ModelConfig::layers)
      .def_readonly("vocab", &ModelConfig::vocab)
      .def_readonly("q_heads", &ModelConfig::q_heads)
      .def_readonly("kv_heads", &ModelConfig::kv_heads)
      .def_readonly("head_dim", &ModelConfig::head_dim)
      .def_readonly("intermediate", &ModelConfig::intermediate)
      .def_readonly("experts", &ModelConfig::experts)
      .def_readonly("experts_per_token", &ModelConfig::experts_per_token)
      .def_readonly("moe_intermediate", &ModelConfig::moe_intermediate)
      .def_readonly("shared_experts", &ModelConfig::shared_experts)
      .def_readonly("max_positions", &ModelConfig::max_positions)
      .def_readonly("tie_word_embeddings", &ModelConfig::tie_word_embeddings)
      .def_readonly("text_tie_word_embeddings",
                    &ModelConfig::text_tie_word_embeddings)
      .def_readonly("dtype", &ModelConfig::dtype)
      .def_readonly("layer_caches", &ModelConfig::layer_caches)
      .def_readonly("quantization", &ModelConfig::quantization)
      .def_readonly("vision", &ModelConfig::vision)
      .def_readonly("warnings", &ModelConfig::warnings)
      .def(
          "kv_bytes",
          [](const ModelConfig& self, std::int64_t batch, std::int64_t length,
             std::int64_t dtype_bytes) {
            return unwrap(self.kv_bytes(batch, length, dtype_bytes));
          },
          py::arg("batch"), py::arg("length"), py::arg("dtype_bytes"),
          "Bytes that a static cache takes, windows and states included.")
      .def(
          "kv_bytes_per_token",
          [](const ModelConfig& self, std::int64_t dtype_bytes) {
            return unwrap(self.kv_bytes_per_token(dtype_bytes));
          },
          py::arg("dtype_bytes"),
          "Bytes that all layers add for one token, windows apart.")
      .def("__repr__", &config_text);
}

}  // namespace trnscout::python
