// Products without tensor cores, and what becomes of products that somebody else made. The arguments
// are those of gemm.cu.

struct PlainEpilogue {
  const float* bias;
  void* out;
  u32 out_stride;
  u32 m, n;
  float scale;
  u32 activation, write;
};

// Writes a finished sum.
__device__ __forceinline__ void finish_product(const PlainEpilogue& p, u32 row, u32 column, float sum) {
  if (row >= p.m || column >= p.n) return;
  if (p.bias) sum += p.bias[column];
  sum = activated(p.activation, sum * p.scale);
  u64 at = (u64)row * p.out_stride + column;
  if (p.write == STORE_BF16) {
    ((u16*)p.out)[at] = narrowed(sum);
  } else {
    float* out = (float*)p.out;
    out[at] = p.write == ADD_F32 ? out[at] + sum : sum;
  }
}

// f32 without tensor cores, for comparisons: 64 rows by 64 outputs in 256 threads of 4 by 4,
// inputs in tiles of 32 through shared memory. Each sum is one chain of fused operations in the
// order of the inputs; those beyond k are zeros and change nothing. Grid: (ceil(n / 64), ceil(m /
// 64)). The bound is arithmetic (67 TFLOP/s on an H200), of which loads from shared memory leave
// about a half.
extern "C" __global__ void __launch_bounds__(256)
    gemm_f32(const float* x, u32 x_stride, const float* weights, const float* bias, void* out,
             u32 out_stride, u32 m, u32 n, u32 k, float scale, u32 activation, u32 write) {
  __shared__ float rows[32][68], columns[32][64];
  PlainEpilogue p = {bias, out, out_stride, m, n, scale, activation, write};
  u32 down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4, first_row = blockIdx.y * 64;
  u64 depth = (k + 31) / 32 * 32;
  const float* panel = weights + blockIdx.x * depth * 64;
  float sums[4][4] = {};
  for (u32 tile = 0; tile < depth; tile += 32) {
    for (u32 i = threadIdx.x; i < 64 * 32; i += 256) {
      u32 row = first_row + i / 32;
      rows[i % 32][i / 32] = row < m ? x[(u64)row * x_stride + tile + i % 32] : 0.f;
      columns[i / 64][i % 64] = panel[tile * 64 + i];
    }
    __syncthreads();
    for (u32 input = 0; input < 32; input++) {
#pragma unroll
      for (int i = 0; i < 16; i++) {
        float& sum = sums[i / 4][i % 4];
        sum = fmaf(rows[input][down + i / 4], columns[input][across + i % 4], sum);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 16; i++) {
    u32 row = first_row + down + i / 4, column = blockIdx.x * 64 + across + i % 4;
    finish_product(p, row, column, sums[i / 4][i % 4]);
  }
}

// What cuBLASLt is asked for, for devices without it: out[r, o] = sum_i x[r, i] w[o, i] in f32, for i
// < depth, a multiple of 32; plain bf16 weights [n][depth]. Each sum is one chain of fused operations
// in the order of the inputs. Grid: (m, ceil(n / 256)), 256 threads: an output of a row each. Nobody
// measures it: all weights are read once for every row.
extern "C" __global__ void __launch_bounds__(256)
    product(const u16* x, u32 x_stride, const u16* weights, float* out, u32 out_stride, u32 m, u32 n,
            u32 depth) {
  u32 row = blockIdx.x, column = blockIdx.y * 256 + threadIdx.x;
  if (row >= m || column >= n) return;
  const u16* inputs = x + (u64)row * x_stride;
  const u16* of_column = weights + (u64)column * depth;
  float sum = 0.f;
  for (u32 i = 0; i < depth; i++) sum = fmaf(widened(inputs[i]), widened(of_column[i]), sum);
  out[(u64)row * out_stride + column] = sum;
}

// What is to become of such a product: out[r, o] = write(activation(scale * (sums[r, o] +
// bias[o]))). `sums`, rows of `sums_stride` numbers, may be `out` itself. Grid: (m, ceil(n / 256)),
// 256 threads: a number each. Moves 8 m n bytes, 6 to bf16, 12 where it adds; memory is the bound.
extern "C" __global__ void __launch_bounds__(256)
    finish(const float* sums, u32 sums_stride, const float* bias, void* out, u32 out_stride, u32 m,
           u32 n, float scale, u32 activation, u32 write) {
  u32 row = blockIdx.x, column = blockIdx.y * 256 + threadIdx.x;
  if (row >= m || column >= n) return;
  PlainEpilogue p = {bias, out, out_stride, m, n, scale, activation, write};
  finish_product(p, row, column, sums[(u64)row * sums_stride + column]);
}

#ifdef EMU
EMU_REGISTER(gemm_f32)
EMU_REGISTER(product)
EMU_REGISTER(finish)
#endif
