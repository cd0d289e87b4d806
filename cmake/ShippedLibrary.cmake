# SPDX-License-Identifier: Apache-2.0
#
# Links libjobscope.so for workers: self-contained, exporting only the C ABI. The link line lists each archive, because
# the usage requirements of gRPC::grpc++ would add Debian's shared gRPC.

include(LinkedPackages)
include(NeededTargets)

# jobscope_shipped_library(NAME OBJECTS object-library OUTPUT_DIRECTORY dir): builds OUTPUT_DIRECTORY/libjobscope.so,
# stripped, with its debug information and the recorder beside it.
function(jobscope_shipped_library name)
  cmake_parse_arguments(ARG "" "OBJECTS;OUTPUT_DIRECTORY" "" ${ARGN})
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/libjobscope.map)

  # Position-independent in Debian's packages.
  set(archives "")
  foreach(library grpc++ grpc gpr upb address_sorting cares ssl crypto z)
    find_library(jobscope_archive_${library} NAMES lib${library}.a REQUIRED)
    list(APPEND archives ${jobscope_archive_${library}})
  endforeach()
  list(APPEND archives ${jobscope_openssl_needs})
  # Rebuilt as position-independent by tools/pic_deps.sh.
  file(GLOB rebuilt ${JOBSCOPE_PIC_DEPS}/lib/*.a)
  if(NOT rebuilt)
    message(FATAL_ERROR "JOBSCOPE_PIC_DEPS=${JOBSCOPE_PIC_DEPS} holds no archives: run tools/pic_deps.sh")
  endif()
  jobscope_project_archives(ours ${ARG_OBJECTS})
  list(TRANSFORM ours REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE our_archives)

  add_library(${name} SHARED $<TARGET_OBJECTS:${ARG_OBJECTS}> compat.c private_copies.cc steady_waits.cc)
  add_dependencies(${name} ${ours})
  target_link_libraries(${name} PRIVATE
    -Wl,--start-group ${our_archives} ${archives} ${rebuilt} -Wl,--end-group -lpthread -ldl -lm)
  target_compile_options(${name} PRIVATE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
  target_link_options(${name} PRIVATE
    -Wl,-Map=${ARG_OUTPUT_DIRECTORY}/libjobscope.so.map  # for deploy/sbom.py
    -Wl,--version-script=${map} -Wl,--exclude-libs,ALL
    -Wl,-Bsymbolic            # binds our references to ourselves, whatever was loaded before
    -Wl,--gc-sections -Wl,-z,defs -Wl,-z,now -Wl,-z,relro
    -Wl,-z,nodelete           # gRPC's threads and the fork handler outlive any dlclose()
    -Wl,-z,nodynamic-undefined-weak
    -Wl,--wrap=gpr_sleep_until # deploy/private_copies.cc
    -Wl,--wrap=syscall         # deploy/steady_waits.cc
    # libgcc_s stays shared: libgcc_eh would need glibc 2.35.
    -static-libstdc++)
  if(JOBSCOPE_SANITIZE)
    target_link_options(${name} PRIVATE -fsanitize=${JOBSCOPE_SANITIZE})
  endif()
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME jobscope LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${ARG_OUTPUT_DIRECTORY}
    SKIP_BUILD_RPATH ON INSTALL_RPATH "" LINK_DEPENDS "${map};$<TARGET_FILE:jobscope_trace>;${jobscope_linked_packages}")

  set(library $<TARGET_FILE:${name}>)
  set(trace $<TARGET_SONAME_FILE_NAME:jobscope_trace>)
  add_dependencies(${name} jobscope_trace)
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${CMAKE_OBJCOPY} --only-keep-debug ${library} ${library}.debug
    COMMAND ${CMAKE_STRIP} --strip-unneeded ${library}
    COMMAND ${CMAKE_OBJCOPY} --add-gnu-debuglink=${library}.debug ${library}
    COMMAND ${CMAKE_STRIP} --strip-unneeded -o ${ARG_OUTPUT_DIRECTORY}/${trace} $<TARGET_FILE:jobscope_trace>
    COMMAND ${CMAKE_COMMAND} -E create_symlink ${trace} ${ARG_OUTPUT_DIRECTORY}/libjobscope_trace.so
    VERBATIM)
endfunction()
