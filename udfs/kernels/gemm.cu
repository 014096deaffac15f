// Products of activations and weights on tensor cores, for r < m rows, o < n outputs, i < k inputs:
// out[r, o] = write(activation(scale * (sum_i x[r, i] w[o, i] + bias[o]))); where both are bytes, the
// sum is what it is worth: times row_scales[r] * scales[o].
//
// Arguments of all: `x`, rows of `x_stride` numbers, zeros from k on to the end of their last tile;
// `row_scales` [m], or null; `weights` as pack.cu leaves them; `scales` [n], or null; `bias` [n] or
// null; `out`, rows of `out_stride` numbers, f32 or bf16 as `write` says, of which columns < n are
// written, and zeros behind them up to a multiple of 8; `slices`, where sums of a part of the inputs go, see below.
//
// A tile is 64 bytes of a row: 32 inputs of bf16 or 64 bytes. To load it and to hand it to mma is the
// same for both: two steps of 32 bytes.
//
// Order of sums. Where bf16 meets bf16, the tiles are cut into 8 slices of ceil(tiles / 8); every
// slice is summed from zero in the order of its tiles, and the slices are added in their order. All
// kernels do that, whatever their blocks, so that the bits of a row depend on nothing but the row and
// the weights. Sums of bytes are exact (k is at most 65,536), so that their bits are the processor's.
//
// Cost of m rows: 2 m n k operations; 2 n k bytes of weights (n k if 8-bit) that come once from
// memory, the rest from the second-level cache. An H200 makes 4.3 TB/s and, by mma, about 600
// TFLOP/s, twice as many of bytes: below m = 140 memory is the bound, above it the tensor cores.

#define TILE_BYTES 64          // a row's inputs in a tile
#define GROUP_BYTES 1024       // 16 outputs x a tile
#define RING_BYTES 12288       // shared memory of a warp, narrow
#define NARROW_THREADS 256     // 8 warps, a slice each

struct ProductTask {
  const char* x;
  u32 x_stride;
  const float* row_scales;
  const char* weights;
  const float* scales;
  const float* bias;
  void* out;
  u32 out_stride;
  u32 m, n, k;
  float scale;
  u32 activation, write;
  // [8][m][slice_stride(n)], or null.
  float* slices;
};

// Numbers that are multiplied, and what their products are added up in.
struct Halves {
  typedef float Sum;
  enum { BYTES = 2 };
};
struct Bytes {
  typedef int Sum;
  enum { BYTES = 1 };
};

// What the inputs are cut into. Of bytes the slices are only a way to share the work.
template <class Number>
__device__ __forceinline__ u32 tiles_of(const ProductTask& p) {
  return (p.k * Number::BYTES + TILE_BYTES - 1) / TILE_BYTES;
}

// From one row of `slices` to the next.
__device__ __forceinline__ u32 slice_stride(u32 n) { return (n + 31) / 32 * 32; }

// Eight neighbouring numbers of a row.
struct alignas(16) Eight {
  float at[8];
};

__device__ __forceinline__ Eight eight_of(const void* from) {
  const Four *fours = (const Four*)from, low = fours[0], high = fours[1];
  return {{__uint_as_float(low.x), __uint_as_float(low.y), __uint_as_float(low.z),
           __uint_as_float(low.w), __uint_as_float(high.x), __uint_as_float(high.y),
           __uint_as_float(high.z), __uint_as_float(high.w)}};
}

__device__ __forceinline__ void put_eight(void* to, const Eight& x) {
  u32 words[8];
#pragma unroll
  for (int i = 0; i < 8; i++) words[i] = __float_as_uint(x.at[i]);
  ((Four*)to)[0] = {words[0], words[1], words[2], words[3]};
  ((Four*)to)[1] = {words[4], words[5], words[6], words[7]};
}

// The bits of two neighbouring sums.
__device__ __forceinline__ Pair pair_of(float x, float y) {
  return {__float_as_uint(x), __float_as_uint(y)};
}
__device__ __forceinline__ Pair pair_of(int x, int y) { return {(u32)x, (u32)y}; }

// Eight sums of slices, added in their order from zero: `slice(s)` gives those of slice s. Bits of
// whole numbers are kept in f32.
template <class Number, class Slice>
__device__ __forceinline__ Eight sum_of_slices(u32 slices, Slice slice) {
  Eight total = {};
  for (u32 s = 0; s < slices; s++) {
    Eight next = slice(s);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      if constexpr (Number::BYTES == 1) {
        total.at[i] = __int_as_float(__float_as_int(total.at[i]) + __float_as_int(next.at[i]));
      } else {
        total.at[i] += next.at[i];
      }
    }
  }
  return total;
}

// Numbers of 8 columns from `column` on, `other` beyond n and where there is no vector.
__device__ __forceinline__ Eight eight_columns(const float* vector, u32 column, u32 n, float other) {
  if (vector && column + 8 <= n) return eight_of(vector + column);
  Eight all;
#pragma unroll
  for (u32 i = 0; i < 8; i++) all.at[i] = vector && column + i < n ? vector[column + i] : other;
  return all;
}

// What becomes of sums, told to columns `column` to `column + 7` of a row. Values that no row or
// column is there for are never read.
struct Columns {
  u32 column;
  // No bias is -0, which changes no sum, not even 0.
  Eight bias, worth;

  __device__ __forceinline__ Columns(const ProductTask& p, u32 column) : column(column) {
    bias = eight_columns(p.bias, column, p.n, -0.f);
    worth = eight_columns(p.scales, column, p.n, 0.f);
  }

  // The numbers that are to be written; zeros where a row has ended, as they are there before.
  template <class Number, u32 ACTIVATION>
  __device__ __forceinline__ Eight finished(const ProductTask& p, Eight x, float row_scale) const {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float sum = x.at[i];
      if constexpr (Number::BYTES == 1) {
        sum = (float)__float_as_int(sum) * (row_scale * worth.at[i]);
      }
      x.at[i] = activated(ACTIVATION, (sum + bias.at[i]) * p.scale);
    }
    if (column + 8 > p.n) {
#pragma unroll
      for (int i = 0; i < 8; i++) x.at[i] = column + i < p.n ? x.at[i] : 0.f;
    }
    return x;
  }

  // What numbers are added to.
  __device__ __forceinline__ Eight before(const ProductTask& p, u32 row) const {
    return eight_of((const float*)p.out + (u64)row * p.out_stride + column);
  }

  __device__ __forceinline__ void put(const ProductTask& p, u32 row, const Eight& x) const {
    u64 at = (u64)row * p.out_stride + column;
    if (p.write == STORE_BF16) {
      *(Four*)((u16*)p.out + at) = {two_halves(x.at[0], x.at[1]), two_halves(x.at[2], x.at[3]),
                                    two_halves(x.at[4], x.at[5]), two_halves(x.at[6], x.at[7])};
    } else {
      put_eight((float*)p.out + at, x);
    }
  }
};

template <u32 N>
struct Constant {
  static constexpr u32 value = N;
};

// Calls `act` with the activation as a constant, so that what it does for each number asks no more.
template <class Act>
__device__ __forceinline__ void by_activation(u32 activation, Act act) {
  u32 bit = opaque(1u << activation);
  if (bit & 1u << NONE) return act(Constant<NONE>());
  if (bit & 1u << RELU) return act(Constant<RELU>());
  if (bit & 1u << GELU) return act(Constant<GELU>());
  if (bit & 1u << GELU_TANH) return act(Constant<GELU_TANH>());
  if (bit & 1u << SILU) return act(Constant<SILU>());
  return act(Constant<TANH>());
}

// Writes eight numbers of each of TURNS rows, `step` rows apart: what they are added to is asked for
// before the first is needed. `sums_of(turn)` gives the sums of a row.
template <class Number, int TURNS, u32 ACTIVATION, class Sums>
__device__ __forceinline__ void finish_rows(const ProductTask& p, const Columns& columns, u32 row,
                                            u32 step, Sums sums_of) {
  Eight before[TURNS];
  if (p.write == ADD_F32) {
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
      if (row + turn * step < p.m) before[turn] = columns.before(p, row + turn * step);
    }
  }
#pragma unroll
  for (int turn = 0; turn < TURNS; turn++) {
    u32 at = row + turn * step;
    if (at >= p.m) return;
    float row_scale = Number::BYTES == 1 ? p.row_scales[at] : 1.f;
    Eight x = columns.finished<Number, ACTIVATION>(p, sums_of(turn), row_scale);
    if (p.write == ADD_F32) {
#pragma unroll
      for (int i = 0; i < 8; i++) x.at[i] = before[turn].at[i] + x.at[i];
    }
    columns.put(p, at, x);
  }
}

// Writes the sums of M rows by N outputs that THREADS threads have put to shared memory, in rows of
// `pitch` numbers.
template <class Number, int M, int N, int THREADS>
__device__ __forceinline__ void finish_block(const ProductTask& p, const float* sums, u32 pitch,
                                             u32 first_row, u32 first_column) {
  const u32 ACROSS = N / 8, STEP = THREADS / ACROSS;
  u32 within = threadIdx.x / ACROSS, column = threadIdx.x % ACROSS * 8;
  if (first_column + column >= p.n) return;
  Columns columns(p, first_column + column);
  by_activation(p.activation, [&](auto activation) {
    constexpr u32 ACTIVATION = decltype(activation)::value;
    // Activations that take many instructions are there once.
    constexpr int TURNS = ACTIVATION == NONE ? 4 : 1;
#pragma unroll 1
    for (u32 row = within; row < M; row += TURNS * STEP) {
      finish_rows<Number, TURNS, ACTIVATION>(
          p, columns, first_row + row, STEP,
          [&](int turn) { return eight_of(sums + (row + turn * STEP) * pitch + column); });
    }
  });
}

// Adds the sums of slices of eight numbers and writes what becomes of them.
template <class Number, class Slice>
__device__ __forceinline__ void finish_slices(const ProductTask& p, u32 row, u32 column, u32 count,
                                              Slice slice) {
  if (row >= p.m) return;
  Columns columns(p, column);
  Eight total = sum_of_slices<Number>(count, slice);
  by_activation(p.activation, [&](auto activation) {
    constexpr u32 ACTIVATION = decltype(activation)::value;
    finish_rows<Number, 1, ACTIVATION>(p, columns, row, 0, [&](int) { return total; });
  });
}

// Where the 16 bytes `chunk` of a row's 64 lie in shared memory, so that the same chunk of 8 rows,
// which load_matrices reads at once, is in 8 different places of 128 bytes.
__device__ __forceinline__ u32 row_place(u32 row, u32 chunk) {
  return row * TILE_BYTES + (chunk ^ row / 2 % 4) * 16;
}

// 16 rows of a tile in shared memory, as mma takes them in two steps.
__device__ __forceinline__ void row_fragments(const char* rows, u32 lane, u32 a[2][4]) {
  load_matrices(a[0], rows + row_place(lane % 16, lane / 16));
  load_matrices(a[1], rows + row_place(lane % 16, 2 + lane / 16));
}

// 16 outputs of a tile in shared memory: for each 8 outputs what mma takes in two steps.
__device__ __forceinline__ void weight_fragments(const char* group, u32 lane, u32 b[2][4]) {
  Four low = ((const Four*)group)[lane], high = ((const Four*)group)[32 + lane];
  b[0][0] = low.x, b[0][1] = low.y, b[0][2] = low.z, b[0][3] = low.w;
  b[1][0] = high.x, b[1][1] = high.y, b[1][2] = high.z, b[1][3] = high.w;
}

// 16 bytes of a tile that a thread brings to shared memory; those of the next tile lie one step on.
struct Piece {
  const char* from;
  u32 to;
  bool there;
};

// The pieces that thread `thread` of THREADS has of ROWS rows from `first_row` on.
template <class Number, int ROWS, int THREADS>
__device__ __forceinline__ void row_pieces(const ProductTask& p, u32 first_row, u32 thread,
                                           Piece* pieces) {
#pragma unroll
  for (u32 i = 0; i < ROWS * 4 / THREADS; i++) {
    u32 row = (i * THREADS + thread) / 4, chunk = thread % 4;
    bool there = first_row + row < p.m;
    u64 at = there ? (u64)(first_row + row) * p.x_stride * Number::BYTES + chunk * 16 : 0;
    pieces[i] = {p.x + at, row_place(row, chunk), there};
  }
}

// The same, of GROUPS groups of 16 outputs from `first_group` on.
template <class Number, int GROUPS, int THREADS>
__device__ __forceinline__ void weight_pieces(const ProductTask& p, u32 first_group, u32 thread,
                                              Piece* pieces) {
  u32 groups = (p.n + 15) / 16, tiles = tiles_of<Number>(p);
#pragma unroll
  for (u32 i = 0; i < GROUPS * GROUP_BYTES / 16 / THREADS; i++) {
    u32 piece = i * THREADS + thread, group = first_group + piece / (GROUP_BYTES / 16);
    bool there = group < groups;
    u64 at = there ? (u64)group * tiles * GROUP_BYTES + piece % (GROUP_BYTES / 16) * 16 : 0;
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
template <int ROWS, int GROUPS, class Sum>
__device__ __forceinline__ void multiply_tile(const char* rows, const char* groups, u32 lane,
                                              Sum sums[ROWS][2 * GROUPS][4]) {
  u32 a[ROWS][2][4], b[GROUPS][2][4];
#pragma unroll
  for (int i = 0; i < ROWS; i++) row_fragments(rows + i * 16 * TILE_BYTES, lane, a[i]);
#pragma unroll
  for (int j = 0; j < GROUPS; j++) weight_fragments(groups + j * GROUP_BYTES, lane, b[j]);
#pragma unroll
  for (int step = 0; step < 2; step++) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
      for (int j = 0; j < 2 * GROUPS; j++) mma(sums[i][j], a[i][step], &b[j / 2][j % 2][2 * step]);
    }
  }
}

// Where a warp's sums go, two neighbours at a time: `put(row, column, two)`.
template <int ROWS, int COLUMNS, class Sum, class Put>
__device__ __forceinline__ void each_pair(u32 lane, const Sum sums[ROWS][COLUMNS][4], Put put) {
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
      u32 row = i * 16 + lane / 4, column = j * 8 + lane % 4 * 2;
      put(row, column, pair_of(sums[i][j][0], sums[i][j][1]));
      put(row + 8, column, pair_of(sums[i][j][2], sums[i][j][3]));
    }
  }
}

// The same, in shared memory. `pitch` is 8 modulo 16, so that the pairs of 4 rows do not meet in a
// bank.
template <int ROWS, int COLUMNS, class Sum>
__device__ __forceinline__ void put_sums(float* to, u32 pitch, u32 lane,
                                         const Sum sums[ROWS][COLUMNS][4]) {
  each_pair<ROWS, COLUMNS>(lane, sums, [&](u32 row, u32 column, Pair two) {
    *(Pair*)(to + row * pitch + column) = two;
  });
}

// Few rows: blocks of 16 ROWS rows by 16 GROUPS outputs, in which each of 8 warps has a slice of
// the inputs, which it brings through a ring of its own in shared memory (nothing but the slices'
// sums passes between warps), so that each block keeps 64 to 84 KiB on their way whatever its
// tile. The slices' sums go to shared memory.
template <class Number, int ROWS, int GROUPS>
__device__ __forceinline__ void product_by_slices(const ProductTask& p) {
  typedef typename Number::Sum Sum;
  const int ROW_BYTES = ROWS * 16 * TILE_BYTES, STAGE = ROW_BYTES + GROUPS * GROUP_BYTES;
  const int DEPTH = RING_BYTES / STAGE, PITCH = GROUPS * 16 + 8;
  DYNAMIC_SHARED(shared);
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  char* ring = shared + warp * RING_BYTES;
  u32 first_row = blockIdx.y * ROWS * 16, first_group = blockIdx.x * GROUPS;
  u32 tiles = tiles_of<Number>(p), slice = (tiles + 7) / 8;
  u32 first = warp * slice, end = first + slice < tiles ? first + slice : tiles;
  const int OF_ROWS = ROWS * 16 * 4 / 32, OF_WEIGHTS = GROUPS * GROUP_BYTES / 16 / 32;
  Piece of_rows[OF_ROWS], of_weights[OF_WEIGHTS];
  row_pieces<Number, ROWS * 16, 32>(p, first_row, lane, of_rows);
  weight_pieces<Number, GROUPS, 32>(p, first_group, lane, of_weights);

  for (int i = 0; i < DEPTH - 1; i++) {
    if (first + i < end) {
      char* stage = ring + i * STAGE;
      copy_pieces<OF_ROWS, TILE_BYTES>(of_rows, stage, first + i, true);
      copy_pieces<OF_WEIGHTS, GROUP_BYTES>(of_weights, stage + ROW_BYTES, first + i, true);
    }
    copies_commit();
  }
  Sum sums[ROWS][2 * GROUPS][4] = {};
  int now = 0, next = DEPTH - 1;
  for (u32 tile = first; tile < end; tile++) {
    copies_wait<DEPTH - 2>();
    __syncwarp();
    if (tile + DEPTH - 1 < end) {
      char* stage = ring + next * STAGE;
      copy_pieces<OF_ROWS, TILE_BYTES>(of_rows, stage, tile + DEPTH - 1, true);
      copy_pieces<OF_WEIGHTS, GROUP_BYTES>(of_weights, stage + ROW_BYTES, tile + DEPTH - 1, true);
    }
    copies_commit();
    char* stage = ring + now * STAGE;
    multiply_tile<ROWS, GROUPS>(stage, stage + ROW_BYTES, lane, sums);
    now = now + 1 == DEPTH ? 0 : now + 1;
    next = next + 1 == DEPTH ? 0 : next + 1;
  }

  __syncthreads();
  float* all = (float*)shared;
  put_sums<ROWS, 2 * GROUPS>(all + warp * ROWS * 16 * PITCH, PITCH, lane, sums);
  __syncthreads();
}

// Many rows: blocks of M rows by N outputs, warps of 16 ROWS rows by 16 GROUPS outputs that share
// what DEPTH stages of two tiles each bring to shared memory, all but one of them on their way. The
// product goes to shared memory. Where blocks z of a grid SHARE the slices, as many each, the sums of
// every slice go to `slices` instead: of bytes those of all slices of a block together. Gives whether
// the product is in shared memory.
template <class Number, int M, int N, int ROWS, int GROUPS, int DEPTH, bool SHARE>
__device__ __forceinline__ bool product_by_blocks(const ProductTask& p) {
  typedef typename Number::Sum Sum;
  const bool EXACT = Number::BYTES == 1;
  const int ACROSS = N / (GROUPS * 16), THREADS = M / (ROWS * 16) * ACROSS * 32;
  const int ROW_BYTES = M * TILE_BYTES, TILE = ROW_BYTES + N / 16 * GROUP_BYTES;
  const int STAGE = 2 * TILE, PITCH = N + 8;
  DYNAMIC_SHARED(shared);
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 warp_row = warp / ACROSS * ROWS * 16, warp_group = warp % ACROSS * GROUPS;
  u32 first_row = blockIdx.y * M, first_group = blockIdx.x * (N / 16);
  u32 all_tiles = tiles_of<Number>(p), slice = (all_tiles + 7) / 8;
  u32 parts = SHARE ? gridDim.z : 1, number = SHARE ? blockIdx.z * (8 / parts) : 0;
  u32 begin = number * slice, tiles = begin + 8 / parts * slice;
  tiles = tiles < all_tiles ? tiles : all_tiles;
  const int OF_ROWS = M * 4 / THREADS, OF_WEIGHTS = N / 16 * GROUP_BYTES / 16 / THREADS;
  Piece of_rows[OF_ROWS], of_weights[OF_WEIGHTS];
  row_pieces<Number, M, THREADS>(p, first_row, threadIdx.x, of_rows);
  weight_pieces<Number, N / 16, THREADS>(p, first_group, threadIdx.x, of_weights);

  auto fetch = [&](u32 i) {
    char* stage = shared + i % DEPTH * STAGE;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
      u32 tile = begin + 2 * i + half;
      char* to = stage + half * TILE;
      copy_pieces<OF_ROWS, TILE_BYTES>(of_rows, to, tile, tile < tiles);
      copy_pieces<OF_WEIGHTS, GROUP_BYTES>(of_weights, to + ROW_BYTES, tile, tile < tiles);
    }
    copies_commit();
  };
  for (u32 i = 0; i < DEPTH - 1; i++) fetch(i);
  Sum sums[ROWS][2 * GROUPS][4] = {}, totals[ROWS][2 * GROUPS][4] = {};
  auto put_slice = [&](u32 slice) {
    u32 stride = slice_stride(p.n);
    float* to = p.slices + (u64)slice * p.m * stride;
    each_pair<ROWS, 2 * GROUPS>(lane, sums, [&](u32 row, u32 column, Pair two) {
      row += first_row + warp_row, column += (first_group + warp_group) * 16;
      if (row < p.m && column < stride) *(Pair*)(to + (u64)row * stride + column) = two;
    });
  };
  u32 left = slice;
  auto multiply = [&](u32 i, u32 half) {
    const char* from = shared + i % DEPTH * STAGE + half * TILE;
    multiply_tile<ROWS, GROUPS>(from + warp_row * TILE_BYTES,
                                from + ROW_BYTES + warp_group * GROUP_BYTES, lane, sums);
    if (EXACT || (--left != 0 && begin + 2 * i + half + 1 != tiles)) return;
    left = slice;
    if (SHARE && parts > 1) put_slice(number++);
#pragma unroll
    for (int j = 0; j < ROWS * 2 * GROUPS * 4; j++) {
      Sum& sum = sums[j / (8 * GROUPS)][j / 4 % (2 * GROUPS)][j % 4];
      totals[j / (8 * GROUPS)][j / 4 % (2 * GROUPS)][j % 4] += sum;
      sum = 0;
    }
  };
  for (u32 i = 0; begin + 2 * i < tiles; i++) {
    copies_wait<DEPTH - 2>();
    // The stage is there, and nobody needs the one before any more, which is filled again.
    __syncthreads();
    multiply(i, 0);
    fetch(i + DEPTH - 1);
    if (begin + 2 * i + 1 < tiles) multiply(i, 1);
  }
  copies_wait<0>();
  if (SHARE && parts > 1) {
    if (EXACT && begin < tiles) put_slice(blockIdx.z);
    return false;
  }
  __syncthreads();
  put_sums<ROWS, 2 * GROUPS>((float*)shared + warp_row * PITCH + warp_group * 16, PITCH, lane,
                             EXACT ? sums : totals);
  __syncthreads();
  return true;
}

#define PRODUCT_ARGUMENTS                                                                        \
  const char *x, u32 x_stride, const float *row_scales, const char *weights, const float *scales, \
      const float *bias, void *out, u32 out_stride, u32 m, u32 n, u32 k, float scale,            \
      u32 activation, u32 write, float *slices
#define PRODUCT_TASK                                                                             \
  {x, x_stride, row_scales, weights, scales, bias, out, out_stride, m, n, k, scale, activation,  \
   write, slices}

// Tiles of the narrow kernels: 0 is 16 rows by 16 outputs, 1 is 16 by 32, 2 is 32 by 32.
template <class Number>
__device__ __forceinline__ void narrow_product(const ProductTask& p, u32 tile) {
  if (tile == 0) {
    product_by_slices<Number, 1, 1>(p);
  } else if (tile == 1) {
    product_by_slices<Number, 1, 2>(p);
  } else {
    product_by_slices<Number, 2, 2>(p);
  }
  DYNAMIC_SHARED(shared);
  u32 rows = tile == 2 ? 32 : 16, outputs = tile == 0 ? 16 : 32, pitch = outputs + 8;
  u32 row = threadIdx.x / (outputs / 8), column = threadIdx.x % (outputs / 8) * 8;
  u32 first_row = blockIdx.y * rows, first_column = blockIdx.x * outputs;
  if (row >= rows || first_column + column >= p.n) return;
  const float* of_first = (const float*)shared + row * pitch + column;
  finish_slices<Number>(p, first_row + row, first_column + column, 8,
                        [&](u32 s) { return eight_of(of_first + s * rows * pitch); });
}

template <class Number>
__device__ __forceinline__ void middle_product(const ProductTask& p) {
  if (!product_by_blocks<Number, 64, 64, 2, 2, 4, true>(p)) return;
  DYNAMIC_SHARED(shared);
  finish_block<Number, 64, 64, 128>(p, (const float*)shared, 72, blockIdx.y * 64, blockIdx.x * 64);
}

template <class Number, int THREADS>
__device__ __forceinline__ void finish_wide(const ProductTask& p) {
  DYNAMIC_SHARED(shared);
  finish_block<Number, 128, 128, THREADS>(p, (const float*)shared, 136, blockIdx.y * 128,
                                          blockIdx.x * 128);
}

// The sums of slices that blocks of `middle` have left, added in their order, and what becomes of
// them. Grid: (ceil(n / 1024), m), 128 threads of 8 numbers each. Moves 4 `count` m n bytes, which lie
// in the second-level cache, and the result.
template <class Number>
__device__ __forceinline__ void add_slices(const ProductTask& p, u32 count) {
  u32 row = blockIdx.y, column = (blockIdx.x * 128 + threadIdx.x) * 8, stride = slice_stride(p.n);
  if (column >= p.n) return;
  const float* of_first = p.slices + (u64)row * stride + column;
  finish_slices<Number>(p, row, column, count,
                        [&](u32 s) { return eight_of(of_first + (u64)s * p.m * stride); });
}

// Grid: (ceil(n / outputs of the tile), ceil(m / its rows)), 256 threads, 96 KiB of shared memory.
// Weights are read once for each of the grid's rows of blocks; the bound is memory, and for a
// matrix of few MB the time from launch to end.
extern "C" __global__ void __launch_bounds__(256, 2) gemm_narrow_bf16(PRODUCT_ARGUMENTS, u32 tile) {
  narrow_product<Halves>(PRODUCT_TASK, tile);
}

extern "C" __global__ void __launch_bounds__(256, 2) gemm_narrow_int8(PRODUCT_ARGUMENTS, u32 tile) {
  narrow_product<Bytes>(PRODUCT_TASK, tile);
}

// Grid: (ceil(n / 64), ceil(m / 64), parts: 1, 2, 4 or 8), 128 threads, 64 KiB of shared memory: 4
// warps of 32 rows by 32 outputs. For sizes that make too few of the large tiles below. 256 bytes of
// shared memory per mma: at most 80% of its rate.
extern "C" __global__ void __launch_bounds__(128, 3) gemm_middle_bf16(PRODUCT_ARGUMENTS) {
  middle_product<Halves>(PRODUCT_TASK);
}

extern "C" __global__ void __launch_bounds__(128, 3) gemm_middle_int8(PRODUCT_ARGUMENTS) {
  middle_product<Bytes>(PRODUCT_TASK);
}

extern "C" __global__ void __launch_bounds__(128) add_slices_bf16(PRODUCT_ARGUMENTS, u32 count) {
  add_slices<Halves>(PRODUCT_TASK, count);
}

extern "C" __global__ void __launch_bounds__(128) add_slices_int8(PRODUCT_ARGUMENTS, u32 count) {
  add_slices<Bytes>(PRODUCT_TASK, count);
}

// Grid: (ceil(n / 128), ceil(m / 128)), 256 threads, 128 KiB of shared memory for 4 stages and 96
// for 3: 8 warps of 64 rows by 32 outputs, whose sums and totals fill half of the registers. Shared
// memory is the bound: 256 bytes per mma, at most 60% of its rate on sm_90.
extern "C" __global__ void __launch_bounds__(256, 1) gemm_wide_bf16(PRODUCT_ARGUMENTS, u32 stages) {
  ProductTask p = PRODUCT_TASK;
  if (stages == 4) {
    product_by_blocks<Halves, 128, 128, 4, 2, 4, false>(p);
  } else {
    product_by_blocks<Halves, 128, 128, 4, 2, 3, false>(p);
  }
  finish_wide<Halves, 256>(p);
}

// The same grid, 128 threads, 96 KiB of shared memory: exact sums need no totals, so that 4 warps have
// 64 rows by 64 outputs each, and two blocks fit a multiprocessor that has twice as much. 192 bytes
// per mma.
extern "C" __global__ void __launch_bounds__(128, 2) gemm_wide_int8(PRODUCT_ARGUMENTS) {
  ProductTask p = PRODUCT_TASK;
  product_by_blocks<Bytes, 128, 128, 4, 4, 3, false>(p);
  finish_wide<Bytes, 128>(p);
}

#ifdef EMU
EMU_REGISTER(gemm_narrow_bf16)
EMU_REGISTER(gemm_narrow_int8)
EMU_REGISTER(gemm_middle_bf16)
EMU_REGISTER(gemm_middle_int8)
EMU_REGISTER(add_slices_bf16)
EMU_REGISTER(add_slices_int8)
EMU_REGISTER(gemm_wide_bf16)
EMU_REGISTER(gemm_wide_int8)
#endif
