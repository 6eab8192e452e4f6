# Finds libtorch inside the torch wheel of the Python that will import us.

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
# Autoload is off: a trnscout half installed must not keep us from torch.
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0
          ${Python_EXECUTABLE} -c "import torch; print(torch.utils.cmake_prefix_path)"
  OUTPUT_VARIABLE TRNSCOUT_TORCH_PREFIX
  OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE TRNSCOUT_TORCH_MISSING)
if(TRNSCOUT_TORCH_MISSING)
  message(FATAL_ERROR "${Python_EXECUTABLE} cannot import torch; "
                      "install torch==2.13.0 there, or set Python_EXECUTABLE")
endif()
find_package(Torch REQUIRED PATHS ${TRNSCOUT_TORCH_PREFIX} NO_DEFAULT_PATH)
find_library(TORCH_PYTHON_LIBRARY torch_python REQUIRED
             PATHS ${TORCH_INSTALL_PREFIX}/lib NO_DEFAULT_PATH)
