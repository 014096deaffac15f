// Products of activations and weights, for r < m rows, o < n outputs, i < k inputs:
// out[r, o] = write(activation(scale * (scales[o] * sum_i x[r, i] w[o, i] + bias[o]))).
//
// Arguments of all but the last two: `x`, rows of `x_stride` numbers, zeros from k on (bf16 for the tensor cores,
// else f32); `weights` as pack.cu leaves them; `scales` [n] of 8-bit weights, or null; `bias` [n]
// or null; `out`, rows of `out_stride` numbers, f32 or bf16 as `write` says, of which columns < n
// are written.
//
// Order of sums. Where bf16 meets bf16, the inputs are cut into 8 slices of ceil(k / 256) tiles of
// 32; every slice is summed from zero in the order of its tiles, each tile as two steps of 16
// inputs (one instruction, mma), and the slices are added in their order. All kernels do that,
// whatever their tiles, so that the bits of a row depend on nothing but the row and the weights.
//
// Cost of m rows: 2 m n k operations; 2 n k bytes of weights (n k if 8-bit) that come once from
// memory, the rest from the second-level cache. An H200 makes 4.3 TB/s and, by mma, about 600
// TFLOP/s: below m = 140 (70 if 8-bit) memory is the bound, above it the tensor cores.

#define TILE_BYTES 64          // a row's 32 bf16 inputs
#define BF16_GROUP 1024        // 16 outputs x 32 inputs
#define INT8_GROUP 512
#define RING_BYTES 12288       // shared memory of a warp, narrow
#define NARROW_THREADS 256     // 8 warps, a slice each

struct ProductTask {
  const u16* x;
  u32 x_stride;
  const char* weights;
  const float* scales;
  const float* bias;
  void* out;
  u32 out_stride;
  u32 m, n, k;
  float scale;
  u32 activation, write;
};

// Writes a finished sum.
__device__ __forceinline__ void finish_product(const ProductTask& p, u32 row, u32 column,
                                               float sum) {
  if (row >= p.m || column >= p.n) return;
  if (p.scales) sum *= p.scales[column];
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

// Where the 16 bytes `chunk` of a row's 64 lie in shared memory, so that the same chunk of 8 rows,
// which load_matrices reads at once, is in 8 different places of 128 bytes.
__device__ __forceinline__ u32 row_place(u32 row, u32 chunk) {
  return row * TILE_BYTES + (chunk ^ row / 2 % 4) * 16;
}

// 16 rows of 32 inputs in shared memory, as mma takes them in two steps.
__device__ __forceinline__ void row_fragments(const char* rows, u32 lane, u32 a[2][4]) {
  load_matrices(a[0], rows + row_place(lane % 16, lane / 16));
  load_matrices(a[1], rows + row_place(lane % 16, 2 + lane / 16));
}

// Two signed bytes, 0 and 2 of `four`, as halves: exactly, as 128 + their low 7 bits and -128 or
// -256 added to that.
__device__ __forceinline__ u32 two_bytes(u32 four) {
  return two_sums((four & 0x007f007fu) | 0x43004300u, (four & 0x00800080u) | 0xc300c300u);
}

// 16 outputs by 32 inputs in shared memory: for each 8 outputs what mma takes in two steps.
template <int GROUP>
__device__ __forceinline__ void weight_fragments(const char* group, u32 lane, u32 b[2][4]) {
  Four low = ((const Four*)group)[lane];
  if constexpr (GROUP == BF16_GROUP) {
    Four high = ((const Four*)group)[32 + lane];
    b[0][0] = low.x, b[0][1] = low.y, b[0][2] = low.z, b[0][3] = low.w;
    b[1][0] = high.x, b[1][1] = high.y, b[1][2] = high.z, b[1][3] = high.w;
  } else {
    b[0][0] = two_bytes(low.x), b[0][1] = two_bytes(low.x >> 8);
    b[0][2] = two_bytes(low.y), b[0][3] = two_bytes(low.y >> 8);
    b[1][0] = two_bytes(low.z), b[1][1] = two_bytes(low.z >> 8);
    b[1][2] = two_bytes(low.w), b[1][3] = two_bytes(low.w >> 8);
  }
}

// 16 bytes of a tile that a thread brings to shared memory; those of the next tile lie one step on.
struct Piece {
  const char* from;
  u32 to;
  bool there;
};

// The pieces that thread `thread` of THREADS has of ROWS rows from `first_row` on.
template <int ROWS, int THREADS>
__device__ __forceinline__ void row_pieces(const ProductTask& p, u32 first_row, u32 thread,
                                           Piece* pieces) {
#pragma unroll
  for (u32 i = 0; i < ROWS * 4 / THREADS; i++) {
    u32 row = (i * THREADS + thread) / 4, chunk = thread % 4;
    bool there = first_row + row < p.m;
    u64 at = there ? (u64)(first_row + row) * p.x_stride + chunk * 8 : 0;
    pieces[i] = {(const char*)(p.x + at), row_place(row, chunk), there};
  }
}

// The same, of GROUPS groups of 16 outputs from `first_group` on.
template <int GROUPS, int GROUP, int THREADS>
__device__ __forceinline__ void weight_pieces(const ProductTask& p, u32 first_group, u32 thread,
                                              Piece* pieces) {
  u32 groups = (p.n + 15) / 16, tiles = (p.k + 31) / 32;
#pragma unroll
  for (u32 i = 0; i < GROUPS * GROUP / 16 / THREADS; i++) {
    u32 piece = i * THREADS + thread, group = first_group + piece / (GROUP / 16);
    bool there = group < groups;
    u64 at = there ? (u64)group * tiles * GROUP + piece % (GROUP / 16) * 16 : 0;
    pieces[i] = {p.weights + at, piece * 16, there};
  }
}

// Begins to copy tile `tile`; zeros if there is none.
template <int COUNT, int STEP>
__device__ __forceinline__ void copy_pieces(const Piece* pieces, char* to, u32 tile, bool valid) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    copy_async(to + pieces[i].to, pieces[i].from + (u64)tile * STEP, valid && pieces[i].there);
  }
}

// sums += rows x weights, for 16 ROWS rows and 16 GROUPS outputs in shared memory, of one tile.
template <int ROWS, int GROUPS, int GROUP>
__device__ __forceinline__ void multiply_tile(const char* rows, const char* groups, u32 lane,
                                              float sums[ROWS][2 * GROUPS][4]) {
  u32 a[ROWS][2][4], b[GROUPS][2][4];
#pragma unroll
  for (int i = 0; i < ROWS; i++) row_fragments(rows + i * 16 * TILE_BYTES, lane, a[i]);
#pragma unroll
  for (int j = 0; j < GROUPS; j++) weight_fragments<GROUP>(groups + j * GROUP, lane, b[j]);
#pragma unroll
  for (int step = 0; step < 2; step++) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
      for (int j = 0; j < 2 * GROUPS; j++) mma(sums[i][j], a[i][step], &b[j / 2][j % 2][2 * step]);
    }
  }
}

// Where a warp's sums go in shared memory; `pitch` is 8 modulo 16, so that the pairs of 4 rows do
// not meet in a bank.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void put_sums(float* to, u32 pitch, u32 lane,
                                         const float sums[ROWS][COLUMNS][4]) {
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
      float* at = to + (i * 16 + lane / 4) * pitch + j * 8 + lane % 4 * 2;
      at[0] = sums[i][j][0], at[1] = sums[i][j][1];
      at[8 * pitch] = sums[i][j][2], at[8 * pitch + 1] = sums[i][j][3];
    }
  }
}

// Few rows: blocks of 16 ROWS rows by 16 GROUPS outputs, in which each of 8 warps has a slice of
// the inputs, which it brings through a ring of its own in shared memory (nothing but the slices'
// sums passes between warps), so that each block keeps 64 to 84 KiB on their way whatever its
// tile.
template <int ROWS, int GROUPS, int GROUP>
__device__ __forceinline__ void product_by_slices(const ProductTask& p) {
  const int ROW_BYTES = ROWS * 16 * TILE_BYTES, STAGE = ROW_BYTES + GROUPS * GROUP;
  const int DEPTH = RING_BYTES / STAGE, PITCH = GROUPS * 16 + 8;
  DYNAMIC_SHARED(shared);
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  char* ring = shared + warp * RING_BYTES;
  u32 first_row = blockIdx.y * ROWS * 16, first_group = blockIdx.x * GROUPS;
  u32 tiles = (p.k + 31) / 32, slice = (tiles + 7) / 8;
  u32 first = warp * slice, end = first + slice < tiles ? first + slice : tiles;
  const int OF_ROWS = ROWS * 16 * 4 / 32, OF_WEIGHTS = GROUPS * GROUP / 16 / 32;
  Piece of_rows[OF_ROWS], of_weights[OF_WEIGHTS];
  row_pieces<ROWS * 16, 32>(p, first_row, lane, of_rows);
  weight_pieces<GROUPS, GROUP, 32>(p, first_group, lane, of_weights);

  for (int i = 0; i < DEPTH - 1; i++) {
    if (first + i < end) {
      char* stage = ring + i * STAGE;
      copy_pieces<OF_ROWS, TILE_BYTES>(of_rows, stage, first + i, true);
      copy_pieces<OF_WEIGHTS, GROUP>(of_weights, stage + ROW_BYTES, first + i, true);
    }
    copies_commit();
  }
  float sums[ROWS][2 * GROUPS][4] = {};
  int now = 0, next = DEPTH - 1;
  for (u32 tile = first; tile < end; tile++) {
    copies_wait<DEPTH - 2>();
    __syncwarp();
    if (tile + DEPTH - 1 < end) {
      char* stage = ring + next * STAGE;
      copy_pieces<OF_ROWS, TILE_BYTES>(of_rows, stage, tile + DEPTH - 1, true);
      copy_pieces<OF_WEIGHTS, GROUP>(of_weights, stage + ROW_BYTES, tile + DEPTH - 1, true);
    }
    copies_commit();
    char* stage = ring + now * STAGE;
    multiply_tile<ROWS, GROUPS, GROUP>(stage, stage + ROW_BYTES, lane, sums);
    now = now + 1 == DEPTH ? 0 : now + 1;
    next = next + 1 == DEPTH ? 0 : next + 1;
  }

  __syncthreads();
  float* all = (float*)shared;
  put_sums<ROWS, 2 * GROUPS>(all + warp * ROWS * 16 * PITCH, PITCH, lane, sums);
  __syncthreads();
  for (u32 i = threadIdx.x; i < ROWS * 16 * GROUPS * 16; i += NARROW_THREADS) {
    u32 row = i / (GROUPS * 16), column = i % (GROUPS * 16);
    float total = 0.f;
    for (u32 s = 0; s < 8; s++) total += all[(s * ROWS * 16 + row) * PITCH + column];
    finish_product(p, first_row + row, first_group * 16 + column, total);
  }
}

// Many rows: blocks of M rows by N outputs, warps of 16 ROWS rows by 16 GROUPS outputs that share
// what DEPTH stages of two tiles each bring to shared memory, all but one of them on their way.
template <int M, int N, int ROWS, int GROUPS, int GROUP, int DEPTH>
__device__ __forceinline__ void product_by_blocks(const ProductTask& p) {
  const int ACROSS = N / (GROUPS * 16), THREADS = M / (ROWS * 16) * ACROSS * 32;
  const int ROW_BYTES = M * TILE_BYTES, TILE = ROW_BYTES + N / 16 * GROUP;
  const int STAGE = 2 * TILE, PITCH = N + 8;
  DYNAMIC_SHARED(shared);
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 warp_row = warp / ACROSS * ROWS * 16, warp_group = warp % ACROSS * GROUPS;
  u32 first_row = blockIdx.y * M, first_group = blockIdx.x * (N / 16);
  u32 tiles = (p.k + 31) / 32, slice = (tiles + 7) / 8, stages = (tiles + 1) / 2;
  const int OF_ROWS = M * 4 / THREADS, OF_WEIGHTS = N / 16 * GROUP / 16 / THREADS;
  Piece of_rows[OF_ROWS], of_weights[OF_WEIGHTS];
  row_pieces<M, THREADS>(p, first_row, threadIdx.x, of_rows);
  weight_pieces<N / 16, GROUP, THREADS>(p, first_group, threadIdx.x, of_weights);

  for (u32 i = 0; i < DEPTH - 1; i++) {
#pragma unroll
    for (u32 tile = 2 * i; tile < 2 * i + 2; tile++) {
      char* to = shared + tile * TILE;
      copy_pieces<OF_ROWS, TILE_BYTES>(of_rows, to, tile, tile < tiles);
      copy_pieces<OF_WEIGHTS, GROUP>(of_weights, to + ROW_BYTES, tile, tile < tiles);
    }
    copies_commit();
  }
  float sums[ROWS][2 * GROUPS][4] = {}, totals[ROWS][2 * GROUPS][4] = {};
  u32 left = slice;
  for (u32 i = 0; i < stages; i++) {
    copies_wait<DEPTH - 2>();
    __syncthreads();
    char* next = shared + (i + DEPTH - 1) % DEPTH * STAGE;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
      u32 tile = 2 * (i + DEPTH - 1) + half;
      char* to = next + half * TILE;
      copy_pieces<OF_ROWS, TILE_BYTES>(of_rows, to, tile, tile < tiles);
      copy_pieces<OF_WEIGHTS, GROUP>(of_weights, to + ROW_BYTES, tile, tile < tiles);
    }
    copies_commit();
    for (u32 half = 0; half < 2 && 2 * i + half < tiles; half++) {
      const char* from = shared + i % DEPTH * STAGE + half * TILE;
      multiply_tile<ROWS, GROUPS, GROUP>(from + warp_row * TILE_BYTES,
                                         from + ROW_BYTES + warp_group * GROUP, lane, sums);
      if (--left == 0 || 2 * i + half + 1 == tiles) {
        left = slice;
#pragma unroll
        for (int j = 0; j < ROWS * 2 * GROUPS * 4; j++) {
          float& sum = sums[j / (8 * GROUPS)][j / 4 % (2 * GROUPS)][j % 4];
          totals[j / (8 * GROUPS)][j / 4 % (2 * GROUPS)][j % 4] += sum;
          sum = 0.f;
        }
      }
    }
  }

  copies_wait<0>();
  __syncthreads();
  float* all = (float*)shared;
  put_sums<ROWS, 2 * GROUPS>(all + warp_row * PITCH + warp_group * 16, PITCH, lane, totals);
  __syncthreads();
  for (u32 i = threadIdx.x; i < M * N; i += THREADS) {
    finish_product(p, first_row + i / N, first_group * 16 + i % N, all[i / N * PITCH + i % N]);
  }
}

#define PRODUCT_ARGUMENTS                                                                        \
  const u16 *x, u32 x_stride, const char *weights, const float *scales, const float *bias,       \
      void *out, u32 out_stride, u32 m, u32 n, u32 k, float scale, u32 activation, u32 write
#define PRODUCT_TASK                                                                             \
  {x, x_stride, weights, scales, bias, out, out_stride, m, n, k, scale, activation, write}

// Tiles of the narrow kernels: 0 is 16 rows by 16 outputs, 1 is 16 by 32, 2 is 32 by 32.
template <int GROUP>
__device__ __forceinline__ void narrow_product(const ProductTask& p, u32 tile) {
  if (tile == 0) {
    product_by_slices<1, 1, GROUP>(p);
  } else if (tile == 1) {
    product_by_slices<1, 2, GROUP>(p);
  } else {
    product_by_slices<2, 2, GROUP>(p);
  }
}

// Grid: (ceil(n / outputs of the tile), ceil(m / its rows)), 256 threads, 96 KiB of shared memory.
// Weights are read once for each of the grid's rows of blocks; the bound is memory, and for a
// matrix of few MB the time from launch to end.
extern "C" __global__ void __launch_bounds__(256, 2) gemm_narrow_bf16(PRODUCT_ARGUMENTS, u32 tile) {
  ProductTask p = PRODUCT_TASK;
  narrow_product<BF16_GROUP>(p, tile);
}

extern "C" __global__ void __launch_bounds__(256, 2) gemm_narrow_int8(PRODUCT_ARGUMENTS, u32 tile) {
  ProductTask p = PRODUCT_TASK;
  narrow_product<INT8_GROUP>(p, tile);
}

// Grid: (ceil(n / 64), ceil(m / 64)), 128 threads, 64 KiB of shared memory (48 if 8-bit): 4 warps
// of 32 rows by 32 outputs. For sizes that make too few of the large tiles below. 256 bytes of
// shared memory per mma: at most 80% of its rate.
extern "C" __global__ void __launch_bounds__(128, 3) gemm_middle_bf16(PRODUCT_ARGUMENTS) {
  ProductTask p = PRODUCT_TASK;
  product_by_blocks<64, 64, 2, 2, BF16_GROUP, 4>(p);
}

extern "C" __global__ void __launch_bounds__(128, 3) gemm_middle_int8(PRODUCT_ARGUMENTS) {
  ProductTask p = PRODUCT_TASK;
  product_by_blocks<64, 64, 2, 2, INT8_GROUP, 4>(p);
}

// Grid: (ceil(n / 128), ceil(m / 128)), 256 threads, 128 KiB of shared memory for 4 stages and 96
// for 3 (96 and 72 if 8-bit): 8 warps of 64 rows by 32 outputs, whose sums and totals fill half of
// the registers. Shared memory is the bound: 256 bytes per mma, at most 60% of its rate on sm_90.
template <int GROUP>
__device__ __forceinline__ void wide_product(const ProductTask& p, u32 stages) {
  if (stages == 4) {
    product_by_blocks<128, 128, 4, 2, GROUP, 4>(p);
  } else {
    product_by_blocks<128, 128, 4, 2, GROUP, 3>(p);
  }
}

extern "C" __global__ void __launch_bounds__(256, 1) gemm_wide_bf16(PRODUCT_ARGUMENTS, u32 stages) {
  ProductTask p = PRODUCT_TASK;
  wide_product<BF16_GROUP>(p, stages);
}

extern "C" __global__ void __launch_bounds__(256, 1) gemm_wide_int8(PRODUCT_ARGUMENTS, u32 stages) {
  ProductTask p = PRODUCT_TASK;
  wide_product<INT8_GROUP>(p, stages);
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
  ProductTask p = {nullptr, 0, nullptr, nullptr, bias,       out,  out_stride,
                   m,       n, k,       scale,   activation, write};
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
  ProductTask p = {nullptr, 0, nullptr, nullptr, bias,       out,  out_stride,
                   m,       n, 0,       scale,   activation, write};
  finish_product(p, row, column, sums[(u64)row * sums_stride + column]);
}

#ifdef EMU
EMU_REGISTER(gemm_narrow_bf16)
EMU_REGISTER(gemm_narrow_int8)
EMU_REGISTER(gemm_middle_bf16)
EMU_REGISTER(gemm_middle_int8)
EMU_REGISTER(gemm_wide_bf16)
EMU_REGISTER(gemm_wide_int8)
EMU_REGISTER(gemm_f32)
EMU_REGISTER(product)
EMU_REGISTER(finish)
#endif
