# Defines the targets dyn_ros::dyn_ros (shared) and dyn_ros::dyn_ros_static.
get_filename_component(_dyn_ros_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET dyn_ros::dyn_ros)
  add_library(dyn_ros::dyn_ros SHARED IMPORTED)
  set_target_properties(dyn_ros::dyn_ros PROPERTIES
    IMPORTED_LOCATION "${_dyn_ros_prefix}/lib/@SONAME@"
    IMPORTED_SONAME "@SONAME@"
    INTERFACE_INCLUDE_DIRECTORIES "${_dyn_ros_prefix}/include")
  add_library(dyn_ros::dyn_ros_static STATIC IMPORTED)
  set_target_properties(dyn_ros::dyn_ros_static PROPERTIES
    IMPORTED_LOCATION "${_dyn_ros_prefix}/lib/libdyn_ros.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_dyn_ros_prefix}/include")
endif()

unset(_dyn_ros_prefix)
