#include "trnscout/checkpoint.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

Checkpoint open(const std::filesystem::path& dir) {
  auto opened = [&dir] {
    const py::gil_scoped_release release;  // headers may lie on a slow disk
    return Checkpoint::open(dir);
  }();
  return unwrap(std::move(opened));
}

Checkpoint from_headers(const std::vector<ShardHeader>& headers,
                        const std::optional<std::string>& index_json) {
  auto joined = [&] {
    const py::gil_scoped_release release;
    return Checkpoint::from_headers(headers, index_json);
  }();
  return unwrap(std::move(joined));
}

std::string header_text(const ShardHeader& self) {
  return py::str("ShardHeader({!r}, file_bytes={}, first_bytes={} of them)")
      .format(self.file_name, self.file_bytes, self.first_bytes.size());
}

std::string tensor_text(const TensorInfo& self) {
  return py::str("TensorInfo({!r}, {!r}, {!r}, shard={}, bytes={}..{})")
      .format(self.name, self.dtype, py::tuple(py::cast(self.shape)),
              self.shard, self.begin_bytes, self.end_bytes);
}

std::string shard_text(const CheckpointShard& self) {
  return py::str("CheckpointShard({!r}, bytes={})")
      .format(self.file_name, self.bytes);
}

std::string checkpoint_text(const Checkpoint& self) {
  return py::str("Checkpoint(tensors={}, shards={}, total_bytes={})")
      .format(self.tensors().size(), self.shards().size(), self.total_bytes());
}

void bind_parts(py::module_& m) {
  py::class_<TensorInfo>(m, "TensorInfo",
                         "What a header says of one tensor, and where its "
                         "bytes lie in the shard's file.")
      .def_readonly("name", &TensorInfo::name)
      .def_readonly("dtype", &TensorInfo::dtype,
                    "As the format spells it, for example 'BF16'.")
      .def_property_readonly(
          "shape",
          [](const TensorInfo& self) {
            return py::tuple(py::cast(self.shape));
          },
          "In elements, also where an element is narrower than a byte.")
      .def_readonly("shard", &TensorInfo::shard,
                    "Index into the checkpoint's shards.")
      .def_readonly("begin_bytes", &TensorInfo::begin_bytes)
      .def_readonly("end_bytes", &TensorInfo::end_bytes)
      .def_property_readonly("bytes", &TensorInfo::bytes)
      .def("__repr__", &tensor_text);
  py::class_<CheckpointShard>(m, "CheckpointShard", "One file of weights.")
      .def_readonly("file_name", &CheckpointShard::file_name,
                    "As the index spells it.")
      .def_readonly("path", &CheckpointShard::path,
                    "Empty where only the header is here.")
      .def_readonly("bytes", &CheckpointShard::bytes,
                    "Size of the file, header included.")
      .def_readonly("modified_ns", &CheckpointShard::modified_ns,
                    "Its last change; zero without a path.")
      .def("__repr__", &shard_text);
  py::class_<ShardHeader>(m, "ShardHeader",
                          "What a range request brings of a file of weights "
                          "that is elsewhere.")
      .def(py::init([](std::string file_name, std::int64_t file_bytes,
                       const py::bytes& first_bytes) {
             return ShardHeader{std::move(file_name), file_bytes,
                                std::string(first_bytes)};
           }),
           py::arg("file_name"), py::arg("file_bytes"), py::arg("first_bytes"))
      .def_readonly("file_name", &ShardHeader::file_name)
      .def_readonly("file_bytes", &ShardHeader::file_bytes,
                    "Size of the whole file.")
      .def_property_readonly(
          "first_bytes",
          [](const ShardHeader& self) { return py::bytes(self.first_bytes); },
          "Its start, length and header at least.")
      .def("__repr__", &header_text);
}

}  // namespace

void bind_checkpoint(py::module_& m) {
  bind_parts(m);
  py::class_<Checkpoint>(m, "Checkpoint",
                         "The tensors of a model's directory, by name, from "
                         "the headers alone.")
      .def_static("open", &open, py::arg("dir"),
                  "Opens the model in `dir` and checks every header against "
                  "its file; weights are not read. Raises NotFoundError for "
                  "files that are missing, InvalidArgumentError for files "
                  "that are damaged or lead out of `dir`.")
      .def_static("from_headers", &from_headers, py::arg("headers"),
                  py::arg("index_json") = py::none(),
                  "Does the same where only the files' headers are here. "
                  "`index_json` is the text of the index, None where the "
                  "weights are one file.")
      .def_static(
          "shard_names",
          [](const std::string& index_json) {
            return unwrap(Checkpoint::shard_names(index_json));
          },
          py::arg("index_json"),
          "Names the files that an index needs, sorted, once it is checked.")
      .def_readonly_static("MAX_HEADER_BYTES", &Checkpoint::kMaxHeaderBytes)
      .def_property_readonly("tensors", &Checkpoint::tensors,
                             "Every tensor, sorted by name.")
      .def(
          "find",
          [](const Checkpoint& self, const std::string& name) {
            return self.find(name);
          },
          py::arg("name"), py::return_value_policy::reference_internal,
          "Finds a tensor; None where no tensor has that name.")
      .def_property_readonly("shards", &Checkpoint::shards,
                             "Every file of weights, sorted by name.")
      .def_property_readonly("total_bytes", &Checkpoint::total_bytes,
                             "Bytes of all tensors, from the headers.")
      .def_property_readonly("warnings", &Checkpoint::warnings,
                             "What is odd but does no harm.")
      .def("__repr__", &checkpoint_text);
}

}  // namespace trnscout::python
