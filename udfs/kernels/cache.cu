// Keys and values on their way into the cache, and where they are found again.
//
// A cache holds keys, and in a second piece values, as [layer][block][kv_head][16 slots][stride];
// stride is head_dim filled up to 16 bytes. Slot s of a layer is place s % 16 of block s / 16.

// One slot per key: for the blocks b of segment s,
//   slots[first_key(s) + first(b) + i] = 16 block(b) + i for i < used(b).
//
// spans [segments][3]: first key, first block, blocks; zeros where there is no segment. blocks [][3]:
// block, used, its first key in the segment.
// Grid [segments, parts] of 256 threads, 16 for a block; the parts take turns with the blocks.
// Moves 12 bytes per block and 4 per key; computes nothing.
extern "C" __global__ void __launch_bounds__(256)
    expand(const u32* spans, const u32* blocks, u32* slots) {
  const u32* span = spans + 3 * (u64)blockIdx.x;
  u32 first_key = span[0], first_block = span[1], count = span[2];
  u32 i = threadIdx.x % 16;
  for (u32 b = blockIdx.y * 16 + threadIdx.x / 16; b < count; b += gridDim.y * 16) {
    const u32* block = blocks + 3 * (u64)(first_block + b);
    if (i < block[1]) slots[(u64)first_key + block[2] + i] = block[0] * 16 + i;
  }
}

__device__ __forceinline__ float cache_number(const float* from) { return *from; }
__device__ __forceinline__ float cache_number(const u16* from) { return widened(*from); }
__device__ __forceinline__ void put_cache_number(float* to, float x) { *to = x; }
__device__ __forceinline__ void put_cache_number(u16* to, float x) { *to = narrowed(x); }

// What may be done to a head on its way: (x - mean) inverse weight + bias.
struct HeadNorm {
  const float *weight, *bias;
  float mean, inverse;
};

// No norm, or a norm by mean and variance, or by the mean square, as the host numbers them.
enum { HEAD_PLAIN = 0, HEAD_LAYER = 1, HEAD_RMS = 2 };

// By a whole warp: lane l adds up the numbers l, l + 32, ..., then the lanes are added in pairs; so
// the order of the sums is decided by the width of a head alone.
template <typename N>
__device__ __forceinline__ HeadNorm head_norm(u32 kind, const float* weight, const float* bias,
                                              float eps, const N* x, u32 width) {
  HeadNorm norm = {weight, bias, 0.f, 0.f};
  u32 lane = threadIdx.x % 32;
  if (kind == HEAD_PLAIN) return norm;
  if (kind == HEAD_LAYER) {
    float sum = 0.f;
    for (u32 i = lane; i < width; i += 32) sum += cache_number(x + i);
    norm.mean = warp_sum(sum) / (float)width;
  }
  float squares = 0.f;
  for (u32 i = lane; i < width; i += 32) {
    float apart = cache_number(x + i) - norm.mean;
    squares = fmaf(apart, apart, squares);
  }
  norm.inverse = 1.f / sqrtf(warp_sum(squares) / (float)width + eps);
  return norm;
}

template <typename N>
__device__ __forceinline__ float head_number(const HeadNorm& norm, u32 kind, const N* x, u32 i) {
  float number = cache_number(x + i);
  if (kind == HEAD_PLAIN) return number;
  number = (number - norm.mean) * norm.inverse * norm.weight[i];
  return norm.bias ? number + norm.bias[i] : number;
}

// What `append_f32` and `append_bf16` do; all numbers are of the type N, computed with in f32.
template <typename N>
__device__ __forceinline__ void append_head(N* qkv, u32 width, const u32* slots,
                                            const u32* positions, u32 first_head, u32 heads,
                                            u32 kv_heads, u32 head_dim, u32 q_kind,
                                            const float* q_weight, const float* q_bias, float q_eps,
                                            u32 k_kind, const float* k_weight, const float* k_bias,
                                            float k_eps, const float* cos, const float* sin,
                                            N* keys, N* values, u32 stride) {
  u32 slot = slots[blockIdx.x], lane = threadIdx.x % 32;
  u32 head = first_head + blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
  if (slot == NO_SLOT || head >= heads + 2 * kv_heads) return;

  N* from = qkv + (u64)blockIdx.x * width + (u64)head * head_dim;
  if (head >= heads + kv_heads) {
    N* to = values + cache_place(slot, head - heads - kv_heads, kv_heads, stride);
    for (u32 i = lane; i < head_dim; i += 32) to[i] = from[i];
    return;
  }
  bool is_q = head < heads;
  N* to = is_q ? from : keys + cache_place(slot, head - heads, kv_heads, stride);
  u32 kind = is_q ? q_kind : k_kind;
  HeadNorm norm = head_norm(kind, is_q ? q_weight : k_weight, is_q ? q_bias : k_bias,
                            is_q ? q_eps : k_eps, from, head_dim);
  if (!cos) {
    for (u32 i = lane; i < head_dim; i += 32) {
      put_cache_number(to + i, head_number(norm, kind, from, i));
    }
    return;
  }
  u32 half = head_dim / 2;
  u64 angles = (u64)positions[blockIdx.x] * half;
  for (u32 i = lane; i < half; i += 32) {
    float a = head_number(norm, kind, from, i);
    float b = head_number(norm, kind, from, half + i);
    float c = cos[angles + i], s = sin[angles + i];
    put_cache_number(to + i, a * c - b * s);
    put_cache_number(to + half + i, b * c + a * s);
  }
}

// Rows of [q | k | v] (heads, kv_heads and kv_heads of head_dim numbers; no q if heads is 0) enter a
// layer: q and k are normalised per head, then their halves are rotated by the angles of the row's
// position, k and v go to the row's slot, q stays in the row.
//
// qkv [rows][width], in place; slots, positions [rows], a row whose slot is NO_SLOT is left alone.
// q_kind, k_kind: 0 no norm, 1 layer, 2 RMS, with weight and bias (or null) [head_dim]. cos, sin
// [positions][head_dim / 2], null for no rotation. keys, values: where the layer begins, slots
// `stride` numbers wide. Heads before first_head are left alone.
// Grid [rows, (heads + 2 kv_heads - first_head) / 4 rounded up] of 4 warps, each with one head.
// Moves each number of q, k and v in and out once, 2 (heads + 2 kv_heads) head_dim numbers a row,
// and computes a few operations with each. Sums: see head_norm.
extern "C" __global__ void __launch_bounds__(128)
    append_f32(float* qkv, u32 width, const u32* slots, const u32* positions, u32 first_head,
               u32 heads, u32 kv_heads, u32 head_dim, u32 q_kind, const float* q_weight,
               const float* q_bias, float q_eps, u32 k_kind, const float* k_weight,
               const float* k_bias, float k_eps, const float* cos, const float* sin, float* keys,
               float* values, u32 stride) {
  append_head(qkv, width, slots, positions, first_head, heads, kv_heads, head_dim, q_kind, q_weight,
              q_bias, q_eps, k_kind, k_weight, k_bias, k_eps, cos, sin, keys, values, stride);
}

// The same for rows and a cache of halves. Each number is rounded once, when it is written.
extern "C" __global__ void __launch_bounds__(128)
    append_bf16(u16* qkv, u32 width, const u32* slots, const u32* positions, u32 first_head,
                u32 heads, u32 kv_heads, u32 head_dim, u32 q_kind, const float* q_weight,
                const float* q_bias, float q_eps, u32 k_kind, const float* k_weight,
                const float* k_bias, float k_eps, const float* cos, const float* sin, u16* keys,
                u16* values, u32 stride) {
  append_head(qkv, width, slots, positions, first_head, heads, kv_heads, head_dim, q_kind, q_weight,
              q_bias, q_eps, k_kind, k_weight, k_bias, k_eps, cos, sin, keys, values, stride);
}

// Copies block from(p) of all layers to block to(p). No pair may write what another one reads or
// writes.
//
// pairs [pairs][2]; keys, values: whole caches of `blocks` blocks a layer, `pieces` times 16 bytes
// each. Grid [pairs, layers] of 256 threads. Moves 2 * 2 * 16 pieces bytes per pair and layer;
// computes nothing.
extern "C" __global__ void __launch_bounds__(256)
    copy_blocks(const u32* pairs, Four* keys, Four* values, u32 blocks, u32 pieces) {
  const u32* pair = pairs + 2 * (u64)blockIdx.x;
  u64 layer = (u64)blockIdx.y * blocks;
  u64 from = (layer + pair[0]) * pieces, to = (layer + pair[1]) * pieces;
  for (u32 i = threadIdx.x; i < pieces; i += 256) {
    keys[to + i] = keys[from + i];
    values[to + i] = values[from + i];
  }
}

#ifdef EMU
EMU_REGISTER(expand)
EMU_REGISTER(append_f32)
EMU_REGISTER(append_bf16)
EMU_REGISTER(copy_blocks)
#endif
