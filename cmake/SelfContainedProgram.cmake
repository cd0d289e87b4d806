# SPDX-License-Identifier: Apache-2.0
#
# Links a program statically with gRPC and its dependencies: it starts in 1 ms instead of 13 (the dynamic linker's work
# for gRPC's 55 libraries; `bench/capture_bench.py` times the whole program) and runs where only a C library is
# installed.
include(LinkedPackages)
include(NeededTargets)

set(jobscope_archives "")
foreach(library grpc++ grpc gpr upb address_sorting protobuf re2 cares ssl crypto z)
  find_library(jobscope_archive_${library} NAMES lib${library}.a)
  list(APPEND jobscope_archives ${jobscope_archive_${library}})
endforeach()
list(APPEND jobscope_archives ${jobscope_openssl_needs})
find_library(jobscope_archive_utf8_validity NAMES libutf8_validity.a)  # protobuf's, since 2023
if(jobscope_archive_utf8_validity)
  list(APPEND jobscope_archives ${jobscope_archive_utf8_validity})
endif()
get_filename_component(folder "${jobscope_archive_grpc}" DIRECTORY)
file(GLOB jobscope_abseil_archives ${folder}/libabsl_*.a)

# jobscope_link_self_contained(PROGRAM OBJECTS): links PROGRAM of the object library OBJECTS, without the usage
# requirements of what that was compiled with.
function(jobscope_link_self_contained program objects)
  jobscope_project_archives(ours ${objects})
  list(TRANSFORM ours REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE our_archives)
  target_sources(${program} PRIVATE $<TARGET_OBJECTS:${objects}> ${PROJECT_SOURCE_DIR}/deploy/steady_waits.cc)
  add_dependencies(${program} ${ours})
  # Debian's archives of abseil and protobuf are not position-independent.
  target_link_options(${program} PRIVATE -no-pie -static-libstdc++ -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now
    -Wl,--wrap=syscall)  # deploy/steady_waits.cc
  target_link_libraries(${program} PRIVATE
    -Wl,--start-group ${our_archives} ${jobscope_archives} ${jobscope_abseil_archives} -Wl,--end-group
    -lpthread -ldl -lrt -lm)
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX)
  set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS ${our_archives} ${jobscope_linked_packages})
endfunction()

# jobscope_self_contained_program(NAME SOURCES... LIBS targets...): like jobscope_program. If an archive is missing, or
# with a sanitizer, it links the shared libraries instead.
function(jobscope_self_contained_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  if("${jobscope_archives};${jobscope_abseil_archives}" MATCHES "NOTFOUND" OR NOT jobscope_abseil_archives
     OR JOBSCOPE_SANITIZE OR JOBSCOPE_BUILD_FUZZERS)
    jobscope_program(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS})
    return()
  endif()

  add_library(${name}_objects OBJECT ${ARG_SOURCES})
  target_link_libraries(${name}_objects PRIVATE jobscope_flags jobscope_hardening ${ARG_LIBS})
  add_executable(${name})
  jobscope_link_self_contained(${name} ${name}_objects)
  target_link_options(${name} PRIVATE -static-libgcc)
  add_dependencies(jobscope_programs ${name})
endfunction()
