# SPDX-License-Identifier: Apache-2.0
# Python sources inside of C++ libraries.

# jobscope_embed_python(TARGET file.py...): lets TARGET include "<folder of this CMakeLists>/file.py.h", which contains
# the text of file.py next to it, as `jobscope::python::kFilePy` (torch_steps.py: kTorchStepsPy). Generated when CMake
# runs, so that tools that only compile find it too; CMake runs again when the source changes.
function(jobscope_embed_python target)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(source ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${source} text)
    string(REGEX REPLACE "[^A-Za-z0-9]" "_" name ${source})
    string(TOUPPER "JOBSCOPE_EMBEDDED_${folder}_${name}_H_" guard)
    string(REGEX REPLACE "[^A-Z0-9]" "_" guard ${guard})
    set(constant k)
    string(REPLACE "_" ";" words ${name})
    foreach(word ${words})
      string(SUBSTRING ${word} 0 1 first)
      string(SUBSTRING ${word} 1 -1 rest)
      string(TOUPPER ${first} first)
      string(APPEND constant ${first}${rest})
    endforeach()
    string(CONCAT header
      "// SPDX-License-Identifier: Apache-2.0\n// Made from ${folder}/${source} by CMake.\n"
      "#ifndef ${guard}\n#define ${guard}\n\n#include <string_view>\n\nnamespace jobscope::python {\n\n"
      "inline constexpr std::string_view ${constant} = R\"jobscope_py(${text})jobscope_py\";\n\n"
      "}  // namespace jobscope::python\n\n#endif  // ${guard}\n")
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/${folder}/${source}.h CONTENT "\@header\@" @ONLY)
  endforeach()
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/embedded)
endfunction()
