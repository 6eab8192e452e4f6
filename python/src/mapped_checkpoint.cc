#include "trnscout/mapped_checkpoint.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

// A view that keeps what it shows.
struct HeldView {
  std::shared_ptr<const MappedCheckpoint> mapped;
  TensorView view;
};

std::shared_ptr<MappedCheckpoint> map(Checkpoint checkpoint) {
  auto mapped = [&checkpoint] {
    const py::gil_scoped_release release;  // files may lie on a slow disk
    return MappedCheckpoint::map(std::move(checkpoint));
  }();
  return std::make_shared<MappedCheckpoint>(unwrap(std::move(mapped)));
}

HeldView view(const std::shared_ptr<MappedCheckpoint>& self,
              const std::string& name) {
  return {self, unwrap(self->view(name))};
}

std::vector<HeldView> views(const std::shared_ptr<MappedCheckpoint>& self) {
  std::vector<HeldView> out;
  for (const TensorView& one : self->views()) out.push_back({self, one});
  return out;
}

// Bytes, whatever the element type: Python has no names for half of them, and
// nothing promises that they are aligned.
py::buffer_info buffer(const HeldView& self) {
  // The buffer is read-only, which the constructor's pointer cannot say.
  auto* const data =
      reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(self.view.data));
  return py::buffer_info(data, self.view.bytes(), /*readonly=*/true);
}

std::string view_text(const HeldView& self) {
  return py::str("TensorView({!r}, {!r}, {!r}, bytes={})")
      .format(self.view.info->name, self.view.info->dtype,
              py::tuple(py::cast(self.view.info->shape)), self.view.bytes());
}

}  // namespace

void bind_mapped_checkpoint(py::module_& m) {
  py::class_<HeldView>(m, "TensorView", py::buffer_protocol(),
                       "The bytes of one tensor in a mapped file, as a "
                       "read-only buffer. The mapping stays as long as a view "
                       "or a buffer of it does. Data may be misaligned.")
      .def_buffer(&buffer)
      .def_property_readonly(
          "info", [](const HeldView& self) { return *self.view.info; },
          "What the header says of the tensor.")
      .def_property_readonly(
          "bytes", [](const HeldView& self) { return self.view.bytes(); })
      .def("__len__", [](const HeldView& self) { return self.view.bytes(); })
      .def("__repr__", &view_text);
  py::class_<MappedCheckpoint, std::shared_ptr<MappedCheckpoint>>(
      m, "MappedCheckpoint",
      "A checkpoint whose weights can be read in place, without a copy. A "
      "file must not be cut while it is mapped.")
      .def_static("map", &map, py::arg("checkpoint"),
                  "Maps every file. Raises Error where one was changed since "
                  "its header was read, or is not here; NotFoundError where "
                  "one is gone.")
      .def_property_readonly("checkpoint", &MappedCheckpoint::checkpoint)
      .def("view", &view, py::arg("name"),
           "Gives a tensor's bytes; raises NotFoundError where no tensor has "
           "that name.")
      .def("views", &views, "Gives every tensor's bytes, sorted by name.")
      .def("__repr__", [](const MappedCheckpoint& self) {
        return py::str("MappedCheckpoint(tensors={}, shards={})")
            .format(self.checkpoint().tensors().size(),
                    self.checkpoint().shards().size());
      });
}

}  // namespace trnscout::python
