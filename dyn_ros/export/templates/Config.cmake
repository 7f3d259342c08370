# Defines the targets @PACKAGE@::@NAME@ (shared) and @PACKAGE@::@NAME@_static.
get_filename_component(_@PACKAGE@_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET @PACKAGE@::@NAME@)
  add_library(@PACKAGE@::@NAME@ SHARED IMPORTED)
  set_target_properties(@PACKAGE@::@NAME@ PROPERTIES
    IMPORTED_LOCATION "${_@PACKAGE@_prefix}/lib/@SONAME@"
    IMPORTED_SONAME "@SONAME@"
    INTERFACE_INCLUDE_DIRECTORIES "${_@PACKAGE@_prefix}/include")
  add_library(@PACKAGE@::@NAME@_static STATIC IMPORTED)
  set_target_properties(@PACKAGE@::@NAME@_static PROPERTIES
    IMPORTED_LOCATION "${_@PACKAGE@_prefix}/lib/lib@NAME@.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_@PACKAGE@_prefix}/include")
endif()

unset(_@PACKAGE@_prefix)
