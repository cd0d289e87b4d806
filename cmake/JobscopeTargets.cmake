# SPDX-License-Identifier: Apache-2.0
# One way to make a library, a program, a test: the flags that all of our code is compiled with.
include(NeededTargets)

add_library(jobscope_flags INTERFACE)
target_include_directories(jobscope_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(jobscope_flags INTERFACE -Wall -Wextra)
if(PROJECT_IS_TOP_LEVEL)  # a newer compiler's warning must not break the build of somebody who only uses jobscope
  target_compile_options(jobscope_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Otherwise a GNU_UNIQUE symbol is shared between libraries even if both hide it.
  target_compile_options(jobscope_flags INTERFACE -fno-gnu-unique)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(jobscope_flags INTERFACE -Wthread-safety)
endif()

# What goes into workers and to operators, beyond that: checks of buffers and of the stack, and no path of this machine in it,
# so that two folders build the same bytes (tools/reproducible.sh). Not for tests, which are compiled without optimisation and
# look for their files by __FILE__.
add_library(jobscope_hardening INTERFACE)
target_compile_options(jobscope_hardening INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
if(NOT JOBSCOPE_SANITIZE AND NOT JOBSCOPE_BUILD_FUZZERS)
  target_compile_options(jobscope_hardening INTERFACE -fstack-protector-strong
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=2>)
  target_link_options(jobscope_hardening INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
if(JOBSCOPE_SANITIZE)
  # Not vptr: to look at a type, UBSan opens a pipe, and where no descriptor is left it takes every type for a wrong one.
  target_compile_options(jobscope_flags INTERFACE -fsanitize=${JOBSCOPE_SANITIZE} -fno-sanitize=vptr
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(JOBSCOPE_SANITIZE MATCHES "undefined")
    # UBSan is for the product: without it, GCC compiles a test in two thirds of the time.
    target_compile_options(jobscope_flags INTERFACE $<$<BOOL:$<TARGET_PROPERTY:JOBSCOPE_TEST>>:-fno-sanitize=undefined>)
  endif()
  target_link_options(jobscope_flags INTERFACE -fsanitize=${JOBSCOPE_SANITIZE})
endif()

# What the fuzzers reach: tests/tooling/fuzz_coverage.py. A shared library would write its counts over those of the program.
if(JOBSCOPE_BUILD_FUZZERS)
  set(counted $<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>>)
  target_compile_options(jobscope_flags INTERFACE $<${counted}:-fprofile-instr-generate> $<${counted}:-fcoverage-mapping>)
  target_link_options(jobscope_flags INTERFACE $<${counted}:-fprofile-instr-generate>)
endif()

# Tests are compiled once and run for seconds, so optimising them does not pay off. The libraries that they link are
# optimised.
if(NOT JOBSCOPE_BUILD_FUZZERS)
  # Some libraries ask for -pthread, newer abseil for NOMINMAX, and precompiled headers fit only one or the other.
  set(jobscope_test_options -O0 -g1 -pthread -DNOMINMAX)
endif()

# Environment of tests: what libraries of others do not free is no leak of ours.
set(jobscope_foreign_leaks LSAN_OPTIONS=set:print_suppressions=0:suppressions=${PROJECT_SOURCE_DIR}/tests/lsan_suppressions.txt)

# Environment of tests that load our libraries into programs that are not ours, such as Python: AddressSanitizer's runtime comes
# first. Such programs need not free what they allocate. Python with malloc, so that its objects have bounds.
set(jobscope_foreign_process "")
if(JOBSCOPE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  foreach(library asan stdc++)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${library}.so
                    OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    file(REAL_PATH ${file} file)
    list(APPEND jobscope_foreign_process LD_PRELOAD=path_list_append:${file})
  endforeach()
  list(APPEND jobscope_foreign_process ASAN_OPTIONS=set:detect_leaks=0 PYTHONMALLOC=set:malloc)
endif()

# Compiles the sources of a target in groups of `size` (0: all of them), with JOBSCOPE_UNITY, except those named after it, whose
# local names would collide with others'.
function(jobscope_unity name size)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${JOBSCOPE_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(JOBSCOPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)  # unity builds treat the sources as headers
  endif()
endfunction()

# jobscope_library(NAME SOURCES... [ALONE sources...] [PUBLIC libs...] [PRIVATE libs...]): a static library of one
# folder. With JOBSCOPE_UNITY its sources are compiled together, except those whose local names would collide (ALONE).
function(jobscope_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES} ${ARG_ALONE})
  jobscope_unity(${name} 0 ${ARG_ALONE})
  if(JOBSCOPE_BUILD_FUZZERS)  # coverage feedback for the fuzzer
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE jobscope_flags jobscope_hardening ${ARG_PRIVATE})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
endfunction()

# jobscope_program(NAME SOURCES... LIBS...): an executable in bin/. The target `jobscope_programs` builds all of them
# except tests.
add_custom_target(jobscope_programs)
function(jobscope_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE jobscope_flags ${ARG_LIBS})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/tests")
    target_compile_options(${name} PRIVATE ${jobscope_test_options})
  else()
    add_dependencies(jobscope_programs ${name})
  endif()
endfunction()

# jobscope_test(NAME SOURCES... [ALONE sources...] LIBS... [TIMEOUT seconds] [SHARDS count]): one GoogleTest program, run shuffled. Its
# label is `unit`; the target `unit_tests` builds all of them, with the fuzzers. tests/sources.txt in the build folder lists which
# sources it has, for `make check`. SOURCES and ALONE as for jobscope_library, in groups of a size that one editor's save can wait for.
# SHARDS: divides the cases among this number of tests, NAME.1 and so on, which run at the same time: for programs that take so long
# that the processors would be idle at the end of a run.
if(JOBSCOPE_BUILD_TESTS)
  add_custom_target(fuzzers)
  add_custom_target(unit_tests DEPENDS fuzzers)
endif()
file(WRITE ${PROJECT_BINARY_DIR}/tests/sources.txt "")
function(jobscope_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SHARDS" "SOURCES;ALONE;LIBS" ${ARGN})
  jobscope_test_program(${name} SOURCES ${ARG_SOURCES} ALONE ${ARG_ALONE} LIBS ${ARG_LIBS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
    if(JOBSCOPE_SANITIZE)  # several times as slow
      set(ARG_TIMEOUT 900)
    endif()
  endif()
  add_dependencies(unit_tests ${name})
  set(tests ${name})
  if(ARG_SHARDS)
    set(tests "")
    foreach(shard RANGE 1 ${ARG_SHARDS})
      list(APPEND tests ${name}.${shard})
    endforeach()
  endif()
  list(LENGTH tests shards)
  set(shard 0)
  foreach(test ${tests})
    add_test(NAME ${test} COMMAND ${name} --gtest_shuffle)
    set_tests_properties(${test} PROPERTIES
      TIMEOUT ${ARG_TIMEOUT} LABELS unit ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}"
      ENVIRONMENT_MODIFICATION "${jobscope_foreign_leaks}")
    math(EXPR shard "${shard} + 1")
  endforeach()
  jobscope_thread_sanitizer(${name} ${tests})
endfunction()

# jobscope_test_program(NAME SOURCES... [ALONE sources...] LIBS...): the program alone, where its tests are registered one by one.
function(jobscope_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${ARG_ALONE})
  jobscope_unity(${name} 12 ${ARG_ALONE})
  target_link_libraries(${name} PRIVATE jobscope_flags ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${jobscope_test_options})
  set_target_properties(${name} PROPERTIES JOBSCOPE_TEST ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  cmake_language(EVAL CODE "cmake_language(DEFER CALL jobscope_precompiled_headers ${name})")
  file(APPEND ${PROJECT_BINARY_DIR}/tests/sources.txt "${name} ${ARG_SOURCES} ${ARG_ALONE}\n")
endfunction()

# jobscope_test_library(NAME SOURCES... LIBS...): a fixture that several test programs link, compiled once, as they are: with -fPIE,
# which their precompiled headers have.
function(jobscope_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  jobscope_unity(${name} 0)
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} GTest::gtest PRIVATE jobscope_flags)
  target_compile_options(${name} PRIVATE ${jobscope_test_options} -fPIE)
  set_target_properties(${name} PROPERTIES JOBSCOPE_TEST ON POSITION_INDEPENDENT_CODE OFF)
  cmake_language(EVAL CODE "cmake_language(DEFER CALL jobscope_precompiled_headers ${name})")
endfunction()

# Called at the end of the folder, when all that the test needs is known.
function(jobscope_precompiled_headers test)
  if(NOT TARGET jobscope_test_headers)
    return()
  endif()
  jobscope_needed_targets(needed PROPERTIES LINK_LIBRARIES INTERFACE_LINK_LIBRARIES TARGETS ${test})
  if(jobscope_proto_grpc IN_LIST needed)
    target_compile_definitions(${test} PRIVATE GRPC_USE_PROTO_LITE)  # as in those headers, also where a library hides its gRPC
    target_precompile_headers(${test} REUSE_FROM jobscope_test_headers_grpc)
  else()
    target_precompile_headers(${test} REUSE_FROM jobscope_test_headers)
  endif()
endfunction()

# jobscope_thread_sanitizer(TARGET test...): gives the tests that run TARGET the label `tsan`, and builds TARGET with the target
# `tsan_tests`, unless TARGET links gRPC or depends on a program that does (CONTRIBUTING.md, Sanitizers). Called at the end of the
# folder, when all that TARGET needs is known.
if(JOBSCOPE_BUILD_TESTS)
  add_custom_target(tsan_tests)
endif()
function(jobscope_thread_sanitizer target)
  cmake_language(EVAL CODE "cmake_language(DEFER CALL jobscope_label_tsan ${target} ${ARGN})")
endfunction()
function(jobscope_label_tsan target)
  jobscope_needed_targets(needed PROPERTIES LINK_LIBRARIES INTERFACE_LINK_LIBRARIES MANUALLY_ADDED_DEPENDENCIES
                          TARGETS ${target})
  if(needed MATCHES "(^|;)gRPC::")
    return()
  endif()
  add_dependencies(tsan_tests ${target})
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS tsan)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT_MODIFICATION
               "TSAN_OPTIONS=string_append: suppressions=${PROJECT_SOURCE_DIR}/tests/tsan_suppressions.txt")
endfunction()

# jobscope_fuzzer(NAME SOURCES... LIBS... PARSERS files...): the program NAME_fuzzer. With JOBSCOPE_BUILD_FUZZERS it uses
# libFuzzer, otherwise it runs the corpus tests/fuzz/corpus/NAME; both are registered as tests of the label `fuzz`. PARSERS: the
# files, seen from the top, that read the bytes. `make fuzz-coverage` measures what of them the fuzzers reach. The target
# `fuzzers` builds all of them.
file(WRITE ${PROJECT_BINARY_DIR}/tests/fuzzers.txt "")
function(jobscope_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;PARSERS" ${ARGN})
  foreach(parser ${ARG_PARSERS})
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${parser})
      message(FATAL_ERROR "fuzzer ${name}: there is no ${parser}")
    endif()
    file(APPEND ${PROJECT_BINARY_DIR}/tests/fuzzers.txt "${name} ${parser}\n")
  endforeach()
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(JOBSCOPE_BUILD_FUZZERS)
    jobscope_program(${name}_fuzzer SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS})
    target_compile_options(${name}_fuzzer PRIVATE -fsanitize=fuzzer)
    target_link_options(${name}_fuzzer PRIVATE -fsanitize=fuzzer)
    set(arguments -runs=0 ${corpus})
  else()
    jobscope_program(${name}_fuzzer SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS} jobscope_fuzz_main)
    set(arguments ${corpus})
  endif()
  set_target_properties(${name}_fuzzer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(fuzzers ${name}_fuzzer)
  add_test(NAME ${name}_fuzzer_corpus COMMAND ${name}_fuzzer ${arguments})
  set_tests_properties(${name}_fuzzer_corpus PROPERTIES TIMEOUT 300 LABELS fuzz)
endfunction()
