# SPDX-License-Identifier: Apache-2.0
# What targets need, recursively.

# jobscope_needed_targets(OUT PROPERTIES property... TARGETS target...): the targets, and all that their properties name.
# Targets of other projects are named, but what they need is not.
function(jobscope_needed_targets out)
  cmake_parse_arguments(ARG "" "" "PROPERTIES;TARGETS" ${ARGN})
  set(found "")
  set(queue ${ARG_TARGETS})
  while(queue)
    list(POP_FRONT queue target)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" target "${target}")
    if(NOT TARGET "${target}" OR target IN_LIST found)
      continue()
    endif()
    list(APPEND found ${target})
    get_target_property(imported ${target} IMPORTED)
    if(imported)
      continue()
    endif()
    foreach(property ${ARG_PROPERTIES})
      get_target_property(needed ${target} ${property})
      if(needed)
        list(APPEND queue ${needed})
      endif()
    endforeach()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# jobscope_project_archives(OUT target...): returns the targets' static libraries of this project, for link lines that are
# spelled out, archive by archive.
function(jobscope_project_archives out)
  jobscope_needed_targets(targets PROPERTIES LINK_LIBRARIES INTERFACE_LINK_LIBRARIES TARGETS ${ARGN})
  set(found "")
  foreach(target ${targets})
    get_target_property(imported ${target} IMPORTED)
    get_target_property(type ${target} TYPE)
    if(NOT imported AND type STREQUAL "STATIC_LIBRARY")
      list(APPEND found ${target})
    endif()
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()
