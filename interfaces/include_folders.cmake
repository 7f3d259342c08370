# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0

# The ROS wheels refer to include folders of the machine that built them, and CMake rejects folders
# that do not exist. A ROS installation has no such folders.
get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target IN LISTS imported)
  get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
  if(folders)
    set(existing)
    foreach(folder IN LISTS folders)
      if(folder MATCHES "^\\$<" OR EXISTS "${folder}")
        list(APPEND existing "${folder}")
      endif()
    endforeach()
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${existing}")
  endif()
endforeach()
