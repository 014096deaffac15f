// Attention without tensor cores, for heads of any width: in f32 with e^x as accurate as the
// processor's, and for the heads that `attend.cu` does not know, over halves.
//
//   out[r] = sum over keys j of w(j) v(j) / sum over j of w(j),  w(j) = e^(scale q k(j) + bias - top)
//
// A warp has one row and head. It takes the keys 32 at a time, counted from the first: lane j has
// the score of key j, from the first number of the head to the last; then each lane has every 32nd
// number of the result, added up from the first key to the last. Maximum, sum and result are merged
// after each 32 keys. So the order of all sums is decided by the row's own keys.

#define PLAIN_WARPS 4

__device__ __forceinline__ float plain_number(const float* from) { return *from; }
__device__ __forceinline__ float plain_number(const u16* from) { return widened(*from); }
__device__ __forceinline__ void put_plain_number(float* to, float x) { *to = x; }
__device__ __forceinline__ void put_plain_number(u16* to, float x) { *to = narrowed(x); }

// Number i of the row times the i-th number that `piece` holds, added to `sum` in order.
__device__ __forceinline__ float plain_products(const float* row, const Four& piece, float sum,
                                                float) {
  sum = fmaf(row[0], __uint_as_float(piece.x), sum);
  sum = fmaf(row[1], __uint_as_float(piece.y), sum);
  sum = fmaf(row[2], __uint_as_float(piece.z), sum);
  return fmaf(row[3], __uint_as_float(piece.w), sum);
}

__device__ __forceinline__ float plain_products(const float* row, const Four& piece, float sum,
                                                u16) {
  const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    sum = fmaf(row[2 * i], widened((u16)words[i]), sum);
    sum = fmaf(row[2 * i + 1], widened((u16)(words[i] >> 16)), sum);
  }
  return sum;
}

template <typename N>
__device__ __forceinline__ void attend_plain(const N* q, u32 q_width, N* out, u32 out_width,
                                             const Four* segments, const u32* slots,
                                             const N* keys, const N* values, u32 kv_heads,
                                             u32 group, u32 head_dim, float scale, u32 causal,
                                             const float* bias, u32 reach,
                                             const u32* row_segments, u32 stride) {
  DYNAMIC_SHARED(bytes);
  const u32 piece = 16 / sizeof(N);
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 row = blockIdx.x, head = blockIdx.y * PLAIN_WARPS + warp, id = row_segments[row];
  if (id == NO_SEGMENT || head >= kv_heads * group) return;

  float* own_q = (float*)bytes + (u64)warp * (2 * stride + 64);
  float *own_out = own_q + stride, *weights = own_out + stride;
  u32* places = (u32*)(weights + 32);
  const N* from = q + (u64)row * q_width + (u64)head * head_dim;
  for (u32 i = lane; i < stride; i += 32) {
    own_q[i] = i < head_dim ? plain_number(from + i) : 0.f;
    own_out[i] = 0.f;
  }

  // First row, rows, first key, keys.
  Four segment = segments[id];
  // Only causal and biased rows have a place, and they are the last of the keys.
  u32 place = segment.w - segment.y + (row - segment.x), reads = causal ? place + 1 : segment.w;
  u32 kv_head = head / group;
  const u32* own_slots = slots + segment.z;
  float top = -INFINITE, sum = 0.f;
  for (u32 first = 0; first < reads; first += 32) {
    u32 key = first + lane, count = reads - first < 32 ? reads - first : 32;
    float score = -INFINITE;
    __syncwarp();
    if (key < reads) {
      places[lane] = own_slots[key];
      const Four* k = (const Four*)(keys + cache_place(places[lane], kv_head, kv_heads, stride));
      float product = 0.f;
      for (u32 i = 0; i < stride / piece; i++) {
        product = plain_products(own_q + i * piece, k[i], product, N());
      }
      score = product * scale;
      if (bias) {
        int apart = (int)(key - place), far = (int)reach;
        apart = apart < -far ? -far : apart > far ? far : apart;
        score += bias[(u64)head * (2 * reach + 1) + (u32)(apart + far)];
      }
    }
    float largest = fmaxf(top, warp_max(score));
    float weight = key < reads ? exponential(score - largest) : 0.f;
    float before = exponential(top - largest);
    top = largest;
    sum = fmaf(sum, before, warp_sum(weight));
    weights[lane] = weight;
    __syncwarp();
    for (u32 i = lane; i < head_dim; i += 32) {
      float some = 0.f;
      for (u32 j = 0; j < count; j++) {
        u64 value = cache_place(places[j], kv_head, kv_heads, stride);
        some = fmaf(weights[j], plain_number(values + value + i), some);
      }
      own_out[i] = fmaf(own_out[i], before, some);
    }
  }
  N* to = out + (u64)row * out_width + (u64)head * head_dim;
  for (u32 i = lane; i < head_dim; i += 32) put_plain_number(to + i, own_out[i] / sum);
}

// q [rows][q_width], out [rows][out_width]; segments [segments][4]: first row, rows, first key in
// `slots`, keys; slots: one per key; keys, values: where the layer of the cache begins, slots `stride`
// numbers wide, zeros beyond head_dim; bias [kv_heads * group][2 reach + 1] or null; row_segments
// [rows]: the segment of each row, or NO_SEGMENT.
// Grid [rows, heads / 4 rounded up] of 4 warps; dynamic shared memory 16 (2 stride + 64) bytes.
// A row moves 2 kv_heads stride numbers per key and does 4 heads head_dim operations with them.
extern "C" __global__ void __launch_bounds__(128, 6)
    attend_plain_f32(const float* q, u32 q_width, float* out, u32 out_width, const Four* segments,
                     const u32* slots, const float* keys, const float* values, u32 kv_heads,
                     u32 group, u32 head_dim, float scale, u32 causal, const float* bias, u32 reach,
                     const u32* row_segments, u32 stride) {
  attend_plain(q, q_width, out, out_width, segments, slots, keys, values, kv_heads, group, head_dim,
               scale, causal, bias, reach, row_segments, stride);
}

// The same with halves in and out, computed in f32.
extern "C" __global__ void __launch_bounds__(128, 6)
    attend_plain_bf16(const u16* q, u32 q_width, u16* out, u32 out_width, const Four* segments,
                      const u32* slots, const u16* keys, const u16* values, u32 kv_heads, u32 group,
                      u32 head_dim, float scale, u32 causal, const float* bias, u32 reach,
                      const u32* row_segments, u32 stride) {
  attend_plain(q, q_width, out, out_width, segments, slots, keys, values, kv_heads, group, head_dim,
               scale, causal, bias, reach, row_segments, stride);
}

#ifdef EMU
EMU_REGISTER(attend_plain_f32)
EMU_REGISTER(attend_plain_bf16)
#endif
