#pragma once

namespace trnscout::device {

/// Hands PyTorch the accelerator hooks; once a process.
void register_hooks();

}  // namespace trnscout::device
