/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   What the C library and the compiler's library provide elsewhere. */
#include <string.h>

/* These are instructions of WebAssembly. */
void *memcpy(void *to, const void *from, size_t n) { return __builtin_memcpy(to, from, n); }
void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }
void *memset(void *to, int byte, size_t n) { return __builtin_memset(to, byte, n); }

/* LLVM calls it to multiply integers of 64 bits that may overflow. Knuth (1997), section 4.3.1. */
__int128 __multi3(__int128 a, __int128 b)
{
  typedef unsigned long long word;
  const word half = 0xffffffffu;
  word x = (word)a, y = (word)b, x0 = x & half, x1 = x >> 32, y0 = y & half, y1 = y >> 32;
  word low = x0 * y0, middle = x1 * y0 + (low >> 32), other = x0 * y1 + (middle & half);
  word high = x1 * y1 + (middle >> 32) + (other >> 32);
  high += (word)(a >> 64) * y + x * (word)(b >> 64);
  return (__int128)((unsigned __int128)high << 64 | (other << 32 | (low & half)));
}
