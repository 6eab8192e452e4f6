# What every target of this project is built with.
function(trnscout_target name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wconversion
                                         -Werror)
  if(TRNSCOUT_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${TRNSCOUT_SANITIZE}
                                           -fno-sanitize-recover=all
                                           -fno-omit-frame-pointer)
    target_link_options(${name} PRIVATE -fsanitize=${TRNSCOUT_SANITIZE})
  endif()
  # Installed libraries stand together, beside torch in a wheel. The directories
  # of the machine that built them never get in.
  set_target_properties(${name} PROPERTIES
    INSTALL_RPATH "$ORIGIN:$ORIGIN/../torch/lib"
    INSTALL_RPATH_USE_LINK_PATH OFF)
endfunction()
