# Compiles each public header as the only include of a source file, so that a
# header which leans on its neighbours breaks the build.
file(GLOB TRNSCOUT_PUBLIC_HEADERS CONFIGURE_DEPENDS RELATIVE
     ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/include/trnscout/*.h)
set(TRNSCOUT_HEADER_SOURCES)
foreach(header IN LISTS TRNSCOUT_PUBLIC_HEADERS)
  string(REPLACE "/" "_" stem ${header})
  set(source ${CMAKE_BINARY_DIR}/headers_alone/${stem}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
  list(APPEND TRNSCOUT_HEADER_SOURCES ${source})
endforeach()
add_library(trnscout_headers_alone OBJECT ${TRNSCOUT_HEADER_SOURCES})
target_link_libraries(trnscout_headers_alone PRIVATE trnscout_runtime)
trnscout_target(trnscout_headers_alone)
