// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Times calls of the C library. web.py compiles and loads this file.
#include <time.h>

typedef int (*library_function)(
  void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

/* Return the time of a call [ns]. A function takes as many of the ten arguments as it has. */
double time_calls(library_function call, void *const *a, int count)
{
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int n = 0; n < count; n++)
    call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / count;
}
