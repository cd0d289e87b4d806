# SPDX-License-Identifier: Apache-2.0
#
# Builds programs with CUDA code by nvcc, if available. The project itself needs neither nvcc nor CUDA's headers: this
# is for examples and tests. Does not use CMake's CUDA language, which would pass our warnings and sanitizers to nvcc.

set(JOBSCOPE_CUDA AUTO CACHE STRING "AUTO: CUDA examples and GPU tests where nvcc is found; OFF: none")
set(JOBSCOPE_CUDA_FOUND FALSE)
if(NOT JOBSCOPE_CUDA STREQUAL "OFF" AND NOT JOBSCOPE_SANITIZE AND NOT JOBSCOPE_BUILD_FUZZERS
   AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_program(JOBSCOPE_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(JOBSCOPE_NVCC)
    set(JOBSCOPE_CUDA_FOUND TRUE)
  endif()
endif()

# Machine code for A100 and H100/H200; other GPUs from compute capability 8.0 on compile the intermediate code.
set(JOBSCOPE_CUDA_TARGETS
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
  -gencode arch=compute_80,code=compute_80)

# jobscope_cuda_object(OUT source): compiles a .cu file; OUT is the object.
function(jobscope_cuda_object out source)
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${JOBSCOPE_NVCC} -std=c++17 -O2 ${JOBSCOPE_CUDA_TARGETS} -ccbin ${CMAKE_CXX_COMPILER}
            -Xcompiler -fPIC,-Wall,-Wextra,-Werror -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
            -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Building CUDA object ${name}.cu.o")
  set(${out} ${object} PARENT_SCOPE)
endfunction()

# jobscope_cuda_program(NAME [ALL] RUNTIME shared|static OBJECTS ... [DEPENDS ...]): links bin/NAME with the project's
# libraries, and with the CUDA runtime inside or beside it. It finds its libraries in ../lib, in the build tree as in
# the bundle of the GPU tests.
function(jobscope_cuda_program name)
  cmake_parse_arguments(ARG "ALL" "RUNTIME" "OBJECTS;DEPENDS" ${ARGN})
  set(all "")
  if(ARG_ALL)
    set(all ALL)
  endif()
  set(program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
  add_custom_command(OUTPUT ${program}
    COMMAND ${JOBSCOPE_NVCC} -cudart ${ARG_RUNTIME} -ccbin ${CMAKE_CXX_COMPILER}
            -Xcompiler -static-libstdc++,-static-libgcc ${ARG_OBJECTS} -o ${program}
            $<TARGET_LINKER_FILE:jobscope_development> $<TARGET_LINKER_FILE:jobscope_trace>
            -Xlinker -rpath=$ORIGIN/../lib -lpthread -ldl
    DEPENDS ${ARG_OBJECTS} ${ARG_DEPENDS} jobscope_development jobscope_trace
    COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking CUDA program ${name}")
  add_custom_target(${name} ${all} DEPENDS ${program})
endfunction()
