#include "trnscout/memory_ledger.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bindings.h"
#include "status.h"

namespace trnscout::python {
namespace py = pybind11;
namespace {

MemoryCategory category_named(const std::string& name) {
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (memory_category_name(category) == name) return category;
  }
  throw_if_error(absl::InvalidArgumentError(
      "memory ledger: there is no category '" + name + "'"));
  return {};
}

py::dict categories(const MemorySnapshot& snapshot) {
  py::dict out;
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    out[py::str(std::string(memory_category_name(category)))] =
        snapshot.categories[i];
  }
  return out;
}

MemoryLedger::Charge charge(MemoryLedger& ledger, const std::string& category,
                            std::int64_t bytes, const std::string& made_by) {
  MemoryLedger::Charge accepted;
  throw_if_error(
      ledger.charge(category_named(category), bytes, made_by, &accepted));
  return accepted;
}

}  // namespace

void bind_memory_ledger(py::module_& m) {
  m.attr("TRN2_CORE_MEMORY_BYTES") = kTrn2CoreMemoryBytes;
  m.def("format_bytes", &format_bytes, py::arg("bytes"),
        "Formats bytes with a binary unit and two decimals: '1.50 GiB'.");

  py::class_<MemoryUse>(m, "MemoryUse",
                        "Bytes held now, and the most held at one moment.")
      .def_readonly("present_bytes", &MemoryUse::present_bytes)
      .def_readonly("peak_bytes", &MemoryUse::peak_bytes);
  py::class_<MemoryHolder>(m, "MemoryHolder",
                           "Bytes held now by the blocks one operator made.")
      .def_property_readonly(
          "category",
          [](const MemoryHolder& self) {
            return std::string(memory_category_name(self.category));
          })
      .def_readonly("made_by", &MemoryHolder::made_by)
      .def_readonly("blocks", &MemoryHolder::blocks)
      .def_readonly("present_bytes", &MemoryHolder::present_bytes);
  py::class_<MemorySnapshot>(m, "MemorySnapshot",
                             "One core's memory at one moment.")
      .def_readonly("core", &MemorySnapshot::core)
      .def_readonly("limit_bytes", &MemorySnapshot::limit_bytes)
      .def_readonly("total", &MemorySnapshot::total)
      .def_property_readonly("categories", &categories)
      .def_readonly("holders", &MemorySnapshot::holders)
      .def_readonly("charges", &MemorySnapshot::charges)
      .def_readonly("refusals", &MemorySnapshot::refusals)
      .def_readonly("charged_bytes", &MemorySnapshot::charged_bytes);

  m.def("memory_table", &memory_table, py::arg("snapshot"),
        "Formats a snapshot as the table of out-of-memory messages.");

  py::class_<MemoryLedger> ledger(m, "MemoryLedger",
                                  "Keeps one core's budget by category.");
  py::class_<MemoryLedger::Charge>(ledger, "Charge", "One accepted charge.")
      .def_readonly("bytes", &MemoryLedger::Charge::bytes);
  ledger
      .def(py::init([](std::int32_t core, std::int64_t limit_bytes) {
             return std::make_unique<MemoryLedger>(MemoryLedger::Options{
                 .core = core, .limit_bytes = limit_bytes});
           }),
           py::kw_only(), py::arg("core") = 0,
           py::arg("limit_bytes") = kTrn2CoreMemoryBytes)
      .def("charge", &charge, py::arg("category"), py::arg("bytes"),
           py::arg("made_by"),
           "Books bytes; raises ResourceExhaustedError with the table when "
           "they would pass the limit.")
      .def("release", &MemoryLedger::release, py::arg("charge"),
           "Ends a charge; give each back once.")
      .def("reset_peaks", &MemoryLedger::reset_peaks,
           "Lets every peak start again at what is held now.")
      .def("snapshot", &MemoryLedger::snapshot,
           "Returns what is held, by category.");
}

}  // namespace trnscout::python
