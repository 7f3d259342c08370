/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   The functions of the C library that the runtime uses. */
#ifndef DYN_ROS_STRING_H
#define DYN_ROS_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

#endif
