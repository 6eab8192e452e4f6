#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "trnscout/logit_view.h"

namespace trnscout::python {

// Logits that Python owns, read in place: whatever offers the buffer protocol
// (NumPy) or DLPack in CPU memory (PyTorch, also bfloat16). Keeps the owner
// from going away; made and destroyed with the GIL held.
class LogitsArgument {
 public:
  // One dimension is one position, [vocab]; two are [positions, vocab].
  LogitsArgument(const pybind11::object& logits, const std::string& name);

  const LogitView& view() const { return view_; }

 private:
  void read_buffer(const pybind11::object& logits, const std::string& name);
  void read_dlpack(const pybind11::object& logits, const std::string& name);

  LogitView view_;
  pybind11::buffer_info buffer_;
  pybind11::object owner_;
};

}  // namespace trnscout::python
