// What all kernels share: types, wrappers around instructions, sums in a fixed order, activations.
//
// This text stands before every other source; there are no includes on the device, because NVRTC
// has no include path. Inline assembly is only here, each piece with a twin that the emulator runs
// (EMU). Everything is compiled without contraction of a * b + c: where a fused operation is
// meant, `fmaf` says so, and the bits of a result do not depend on what a compiler makes of it.
//
// Numbers: "half" is bfloat16 in a u16. Rows of a tensor have a stride that is a multiple of 32
// numbers, and the numbers beyond a row's width are zeros.
#ifdef EMU
#include "emu.h"
#endif

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL 0xffffffffu
#define INFINITE __uint_as_float(0x7f800000u)
#define NOT_A_NUMBER __uint_as_float(0x7fffffffu)

// Activations, as the host numbers them.
enum { NONE = 0, RELU = 1, GELU = 2, GELU_TANH = 3, SILU = 4, TANH = 5 };
// Types of stored numbers, as the host numbers them.
enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_BF16 = 2 };
// What happens to a result, as the host numbers it.
enum { STORE_F32 = 0, ADD_F32 = 1, STORE_BF16 = 2 };

struct alignas(16) Four {
  u32 x, y, z, w;
};

struct alignas(8) Pair {
  u32 x, y;
};

__device__ __forceinline__ float widened(u16 v) { return __uint_as_float((u32)v << 16); }

#ifdef EMU

__device__ __forceinline__ u16 narrowed(float f) {
  u32 u = __float_as_uint(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (u16)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

__device__ __forceinline__ float from_f16(u16 h) {
  u32 sign = (u32)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 0x3ffu;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | (fraction << 13));
  float size = exponent ? ldexpf((float)(fraction | 0x400u), (int)exponent - 25)
                        : ldexpf((float)fraction, -24);
  return sign ? -size : size;
}

// 2^x with a relative error of 2^-22; results below the normal numbers are 0.
__device__ __forceinline__ float power_of_two(float x) {
  float y = exp2f(x);
  return y < 1.17549435e-38f ? 0.f : y;
}

// The same number, of which a compiler knows nothing: it cannot make tests of it a table of jumps.
__device__ __forceinline__ u32 opaque(u32 number) { return number; }

// C[16][8] += A[16][16] B[16][8], spread over a warp as the PTX manual's mma.m16n8k16.
__device__ __forceinline__ void mma(float* c, const u32* a, const u32* b) { emu::mma(c, a, b); }

// The same of signed bytes, A[16][32] and B[32][8], as mma.m16n8k32: a word has four neighbours.
__device__ __forceinline__ void mma(int* c, const u32* a, const u32* b) { emu::mma(c, a, b); }

// A place in shared memory that is computed once: from a pointer the compiler of sm_90 computes it
// anew, with four instructions, wherever it is used. All lanes of a warp have the same `p`.
typedef char* SharedPlace;
__device__ __forceinline__ SharedPlace shared_place(void* p) { return (char*)p; }
__device__ __forceinline__ u32 read_word(SharedPlace p) { return *(const u32*)p; }
__device__ __forceinline__ Four read_four(SharedPlace p) { return *(const Four*)p; }
__device__ __forceinline__ void write_word(SharedPlace p, u32 word) { *(u32*)p = word; }

// Four 8x8 matrices of halves from shared memory; lane l gives the address of row l % 8 of matrix
// l / 8 and gets of each matrix the numbers 2 (l % 4) and the next one of row l / 4.
__device__ __forceinline__ void load_matrices(u32* out, const void* row) {
  emu::load_matrices(out, row, false);
}

// The same, of the transposed matrices.
__device__ __forceinline__ void load_matrices_transposed(u32* out, const void* row) {
  emu::load_matrices(out, row, true);
}

// Begins to copy 16 bytes to shared memory; zeros if not `valid`.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool valid) {
  emu::begin_copy(to, from, valid);
}
__device__ __forceinline__ void copies_commit() { emu::commit_copies(); }
// Waits until at most N of the committed groups of copies are under way.
template <int N>
__device__ __forceinline__ void copies_wait() {
  emu::wait_for_copies(N);
}

#define DYNAMIC_SHARED(name) char* name = emu::dyn_smem

#else

__device__ __forceinline__ u16 narrowed(float f) {
  u16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(f));
  return r;
}

__device__ __forceinline__ float from_f16(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ u32 opaque(u32 number) {
  asm volatile("" : "+r"(number));
  return number;
}

__device__ __forceinline__ void mma(float* c, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma(int* c, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ u32 shared_address(const void* p) {
  return (u32)__cvta_generic_to_shared(p);
}

typedef u32 SharedPlace;
__device__ __forceinline__ SharedPlace shared_place(void* p) {
  return __shfl_sync(FULL, shared_address(p), 0);
}
__device__ __forceinline__ u32 read_word(SharedPlace p) {
  u32 word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(p) : "memory");
  return word;
}
__device__ __forceinline__ Four read_four(SharedPlace p) {
  Four four;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
               : "r"(p)
               : "memory");
  return four;
}
__device__ __forceinline__ void write_word(SharedPlace p, u32 word) {
  asm volatile("st.shared.u32 [%0], %1;" : : "r"(p), "r"(word) : "memory");
}

__device__ __forceinline__ void load_matrices(u32* out, SharedPlace row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(u32* out, SharedPlace row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void copy_async(SharedPlace to, const void* from, bool valid) {
  int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(from), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void load_matrices(u32* out, const void* row) {
  load_matrices(out, shared_address(row));
}

__device__ __forceinline__ void load_matrices_transposed(u32* out, const void* row) {
  load_matrices_transposed(out, shared_address(row));
}

__device__ __forceinline__ void copy_async(void* to, const void* from, bool valid) {
  copy_async(shared_address(to), from, valid);
}

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

extern __shared__ __align__(1024) char dynamic_shared[];
#define DYNAMIC_SHARED(name) char* name = dynamic_shared

#endif

// Number `i` of a stored tensor.
__device__ __forceinline__ float stored(const void* from, u32 type, u64 i) {
  if (type == TYPE_F32) return ((const float*)from)[i];
  u16 v = ((const u16*)from)[i];
  return type == TYPE_F16 ? from_f16(v) : widened(v);
}

__device__ __forceinline__ u32 two_halves(float low, float high) {
  return (u32)narrowed(low) | (u32)narrowed(high) << 16;
}

// Sum and maximum over a warp; the same bits in every lane.
__device__ __forceinline__ float warp_sum(float s) {
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(FULL, s, o);
  return s;
}

__device__ __forceinline__ float warp_max(float m) {
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
  return m;
}

// The sum over a block of up to 1,024 threads (a multiple of 32), in every thread. `scratch` has 32
// numbers in shared memory and is free again when the next barrier was passed.
__device__ __forceinline__ float block_sum(float s, float* scratch) {
  s = warp_sum(s);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = s;
  __syncthreads();
  float all = threadIdx.x % 32 < blockDim.x / 32 ? scratch[threadIdx.x % 32] : 0.f;
  return warp_sum(all);
}

// The maximum over a block, in the same way.
__device__ __forceinline__ float block_max(float m, float* scratch) {
  m = warp_max(m);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = m;
  __syncthreads();
  return warp_max(threadIdx.x % 32 < blockDim.x / 32 ? scratch[threadIdx.x % 32] : m);
}

// The nearest whole number, halves to even, of what is small: as the CPU backend rounds.
__device__ __forceinline__ int rounded_byte(float x) { return (int)(x + 12582912.f - 12582912.f); }

// e^x to 1.5 ulp, by the CPU backend's polynomial: 0 below -86.99, infinite above 88.73.
__device__ __forceinline__ float exponential(float x) {
  if (!(x == x)) return x;
  x = fmaxf(-87.5f, fminf(89.f, x));
  float shifted = fmaf(x, 1.44269504f, 12582912.f);
  float n = shifted - 12582912.f;
  float r = fmaf(n, -0.693147182f, x);
  r = fmaf(n, 1.9046543e-9f, r);
  float p = 0.0013950616f;
  p = fmaf(p, r, 0.008368953f);
  p = fmaf(p, r, 0.041666202f);
  p = fmaf(p, r, 0.16666518f);
  p = fmaf(p, r, 0.5f);
  float power = 1.f + fmaf(r * r, p, r);
  // 2^(n - 1), then doubled: n = 128 stays finite on the way.
  int half_power = (int)n - 1;
  float scale = half_power < -126 ? 0.f : __uint_as_float((u32)(half_power + 127) << 23);
  return power * scale * 2.f;
}

__device__ __forceinline__ float logistic(float x, float y) { return x / (1.f + exponential(-y)); }

// x Phi(x); the error is below 3e-7 of |x|.
__device__ __forceinline__ float gelu(float x) {
  float t = fabsf(x) * 0.707106781f;
  float u = 1.f / fmaf(t, 0.35f, 1.f);
  const float c[10] = {0.19746673f, 0.19746372f,  0.18526393f, 0.16314168f,  0.1125986f,
                       0.14708897f, -0.09719743f, 0.23153777f, -0.17938231f, 0.04201833f};
  float p = c[9];
  for (int i = 8; i >= 0; i--) p = fmaf(p, u, c[i]);
  float tail = u * p * exponential(x * x * -0.5f) * 0.5f;
  return x * (x < 0.f ? tail : 1.f - tail);
}

__device__ __forceinline__ float tangent(float x) {
  float square = x * x, size = fabsf(x);
  if (size < 0.65f) {
    float p = -0.005528637f;
    p = fmaf(p, square, 0.02048332f);
    p = fmaf(p, square, -0.05369297f);
    p = fmaf(p, square, 0.13330899f);
    p = fmaf(p, square, -0.33333263f);
    return fmaf(x * square, p, x);
  }
  float t = exponential(size * -2.f);
  float large = (1.f - t) / (1.f + t);
  return x < 0.f ? -large : large;
}

__device__ __forceinline__ float activated(u32 activation, float x) {
  switch (activation) {
    case RELU:
      return x < 0.f ? 0.f : x;
    case GELU:
      return gelu(x);
    case GELU_TANH:
      return logistic(x, x * fmaf(x * x, 0.044715f, 1.f) * 1.595769f);
    case SILU:
      return logistic(x, x);
    case TANH:
      return tangent(x);
    default:
      return x;
  }
}

// Where a list of slots or of segments is filled up: rows and keys that do not exist.
#define NO_SLOT 0xffffffffu
#define NO_SEGMENT 0xffffffffu

// From the beginning of a layer of a cache, [block][kv_head][16 slots][stride], to the numbers of
// one head at a slot. There may be more than 2^32 numbers.
__device__ __forceinline__ u64 cache_place(u32 slot, u32 head, u32 kv_heads, u32 stride) {
  return (((u64)(slot / 16) * kv_heads + head) * 16 + slot % 16) * stride;
}
