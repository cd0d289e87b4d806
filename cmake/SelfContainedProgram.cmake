# SPDX-License-Identifier: Apache-2.0
#
# Links a program statically with gRPC and its dependencies: it starts in 1 ms instead of 13 (the dynamic linker's work
# for gRPC's 55 libraries; `bench/capture_bench.py` times the whole program) and runs where only a C library is
# installed.
include(NeededTargets)

# jobscope_self_contained_program(NAME SOURCES... LIBS targets...): like jobscope_program. If an archive is missing, or
# with a sanitizer, it links the shared libraries instead.
function(jobscope_self_contained_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  set(archives "")
  foreach(library grpc++ grpc gpr upb address_sorting protobuf re2 cares ssl crypto z)
    find_library(jobscope_archive_${library} NAMES lib${library}.a)
    list(APPEND archives ${jobscope_archive_${library}})
  endforeach()
  get_filename_component(folder "${jobscope_archive_grpc}" DIRECTORY)
  file(GLOB abseil ${folder}/libabsl_*.a)
  if("${archives};${abseil}" MATCHES "NOTFOUND" OR NOT abseil OR JOBSCOPE_SANITIZE
     OR JOBSCOPE_BUILD_FUZZERS)
    jobscope_program(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS})
    return()
  endif()

  # The objects are compiled with the libraries' usage requirements; the program is linked without them.
  add_library(${name}_objects OBJECT ${ARG_SOURCES})
  target_link_libraries(${name}_objects PRIVATE jobscope_flags jobscope_hardening ${ARG_LIBS})
  jobscope_project_archives(ours ${name}_objects)
  list(TRANSFORM ours REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE our_archives)
  add_executable(${name} $<TARGET_OBJECTS:${name}_objects> ${PROJECT_SOURCE_DIR}/deploy/steady_waits.cc)
  add_dependencies(${name} ${ours})
  # Debian's archives of abseil and protobuf are not position-independent.
  target_link_options(${name} PRIVATE -no-pie -static-libstdc++ -static-libgcc -Wl,--gc-sections
    -Wl,-z,relro -Wl,-z,now
    -Wl,--wrap=syscall)  # deploy/steady_waits.cc
  target_link_libraries(${name} PRIVATE
    -Wl,--start-group ${our_archives} ${archives} ${abseil} -Wl,--end-group -lpthread -ldl -lrt -lm)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${our_archives})
  add_dependencies(jobscope_programs ${name})
endfunction()
