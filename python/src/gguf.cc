#include "trnscout/gguf.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <string>
#include <utility>

#include "bindings.h"
#include "status.h"
#include "trnscout/ggml_type.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

GgufFile open(const std::filesystem::path& path) {
  auto opened = [&path] {
    const py::gil_scoped_release release;  // the file may lie on a slow disk
    return GgufFile::open(path);
  }();
  return unwrap(std::move(opened));
}

std::string array_text(const GgufArray& self) {
  return py::str("GgufArray({!r}, count={})")
      .format(self.element_type, self.count);
}

std::string file_text(const GgufFile& self) {
  return py::str("GgufFile(version={}, tensors={}, total_bytes={})")
      .format(self.version(), self.tensors().size(), self.total_bytes());
}

void bind_types(py::module_& m) {
  py::class_<GgmlType>(m, "GgmlType", "An element type of GGUF files.")
      .def_readonly("id", &GgmlType::id)
      .def_property_readonly(
          "name", [](const GgmlType& self) { return std::string(self.name); })
      .def_readonly("block_elements", &GgmlType::block_elements)
      .def_readonly("block_bytes", &GgmlType::block_bytes)
      .def("__repr__", [](const GgmlType& self) {
        return py::str("GgmlType({!r}, block_elements={}, block_bytes={})")
            .format(std::string(self.name), self.block_elements,
                    self.block_bytes);
      });
  m.def("ggml_types", &ggml_types, "Every type that a file may hold, by id.");
}

}  // namespace

void bind_gguf(py::module_& m) {
  bind_types(m);
  py::class_<GgufArray>(m, "GgufArray",
                        "What is kept of an array in a GGUF file's metadata.")
      .def_readonly("element_type", &GgufArray::element_type)
      .def_readonly("count", &GgufArray::count)
      .def("__repr__", &array_text);
  py::class_<GgufFile>(m, "GgufFile",
                       "Metadata and tensors of a GGUF file, from its header "
                       "alone.")
      .def_static("open", &open, py::arg("path"),
                  "Opens a file and checks its header against its size. "
                  "Raises InvalidArgumentError for files that are damaged, "
                  "UnimplementedError for other versions than 2 and 3.")
      .def_property_readonly("version", &GgufFile::version)
      .def_property_readonly("alignment", &GgufFile::alignment)
      .def_property_readonly("file_bytes", &GgufFile::file_bytes)
      .def_property_readonly(
          "metadata",
          [](const GgufFile& self) {
            py::dict out;
            for (const auto& [key, value] : self.metadata()) {
              out[py::str(key)] = py::cast(value);
            }
            return out;
          },
          "Scalars by key; of an array, its element type and count.")
      .def_property_readonly("tensors", &GgufFile::tensors,
                             "Every tensor, sorted by name. Shapes have the "
                             "innermost dimension last, as numpy's have.")
      .def(
          "find",
          [](const GgufFile& self, const std::string& name) {
            return self.find(name);
          },
          py::arg("name"), py::return_value_policy::reference_internal,
          "Finds a tensor; None where no tensor has that name.")
      .def_property_readonly("total_bytes", &GgufFile::total_bytes,
                             "Bytes of all tensors, without padding.")
      .def_property_readonly("warnings", &GgufFile::warnings,
                             "What is odd but does no harm.")
      .def("__repr__", &file_text);
}

}  // namespace trnscout::python
