// Functions and types that CUDA C++ has without an include: bits, maths, atomics, vectors.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace emu {
template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bytes");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace emu

inline float __uint_as_float(unsigned u) { return emu::bits<float>(u); }
inline float __int_as_float(int i) { return emu::bits<float>(i); }
inline unsigned __float_as_uint(float f) { return emu::bits<unsigned>(f); }
inline int __float_as_int(float f) { return emu::bits<int>(f); }
inline long long __double_as_longlong(double d) { return emu::bits<long long>(d); }
inline double __longlong_as_double(long long i) { return emu::bits<double>(i); }

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }

inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (v >> i & 1) << (31 - i);
  return r;
}

// Byte i of the result is byte `selector >> 4 i & 7` of y:x.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t all = (uint64_t)y << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned choice = selector >> 4 * i & 15;
    unsigned byte = (unsigned)(all >> 8 * (choice & 7)) & 255;
    if (choice & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << 8 * i;
  }
  return r;
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
inline double rsqrt(double x) { return 1. / sqrt(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return (float)(1. / sqrt((double)x)); }
inline float __frcp_rn(float x) { return 1.f / x; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __saturatef(float x) { return x > 0.f ? (x < 1.f ? x : 1.f) : 0.f; }

// Conversions clamp, and NaN becomes 0.
inline int __float2int_rn(float x) {
  if (!(x == x)) return 0;
  if (x >= 2147483648.f) return INT32_MAX;
  return x <= -2147483648.f ? INT32_MIN : (int)rintf(x);
}
inline unsigned __float2uint_rn(float x) {
  if (!(x > 0.f)) return 0;
  return x >= 4294967296.f ? UINT32_MAX : (unsigned)rintf(x);
}

template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmin((T)a, (T)b);
  return (T)b < (T)a ? (T)b : (T)a;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmax((T)a, (T)b);
  return (T)a < (T)b ? (T)b : (T)a;
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}

namespace emu {
// No two threads run at once, so any operation is atomic. Of floats there is none: their sums would
// depend on an order that nobody decides.
template <class T, class F>
T updated(T* at, F change) {
  static_assert(std::is_integral_v<T>, "atomics of integers only");
  const T old = *at;
  *at = change(old);
  return old;
}
template <class T>
using Same = typename std::common_type<T>::type;
}  // namespace emu

template <class T>
T atomicAdd(T* at, emu::Same<T> by) {
  return emu::updated(at, [=](T v) { return (T)(v + by); });
}
template <class T>
T atomicMax(T* at, emu::Same<T> other) {
  return emu::updated(at, [=](T v) { return v < other ? other : v; });
}
template <class T>
T atomicMin(T* at, emu::Same<T> other) {
  return emu::updated(at, [=](T v) { return other < v ? other : v; });
}
template <class T>
T atomicOr(T* at, emu::Same<T> by) {
  return emu::updated(at, [=](T v) { return (T)(v | by); });
}
template <class T>
T atomicAnd(T* at, emu::Same<T> by) {
  return emu::updated(at, [=](T v) { return (T)(v & by); });
}
template <class T>
T atomicExch(T* at, emu::Same<T> by) {
  return emu::updated(at, [=](T) { return by; });
}
template <class T>
T atomicCAS(T* at, emu::Same<T> expected, emu::Same<T> by) {
  return emu::updated(at, [=](T v) { return v == expected ? by : v; });
}

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
