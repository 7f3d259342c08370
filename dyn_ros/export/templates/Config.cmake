# Defines the targets @NAME@::@NAME@ (shared) and @NAME@::@NAME@_static.
get_filename_component(_@NAME@_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET @NAME@::@NAME@)
  add_library(@NAME@::@NAME@ SHARED IMPORTED)
  set_target_properties(@NAME@::@NAME@ PROPERTIES
    IMPORTED_LOCATION "${_@NAME@_prefix}/lib/@SONAME@"
    IMPORTED_SONAME "@SONAME@"
    INTERFACE_INCLUDE_DIRECTORIES "${_@NAME@_prefix}/include")
  add_library(@NAME@::@NAME@_static STATIC IMPORTED)
  set_target_properties(@NAME@::@NAME@_static PROPERTIES
    IMPORTED_LOCATION "${_@NAME@_prefix}/lib/lib@NAME@.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_@NAME@_prefix}/include")
endif()

unset(_@NAME@_prefix)
