// Operations on whole rows that multiply no matrices: token rows, norms, gates, chosen rows, pooling,
// and conversions between f32 and bfloat16. All of them are bound by the bytes they move.
//
// A thread works on four neighbouring numbers at a time: 16 bytes of f32, 8 of bfloat16. The number
// of threads of a block depends on the width of a row and on nothing else, so every sum over a row
// has one order: a thread adds its fours from left to right, then lanes, then warps (`block_sum`).

// Four neighbouring numbers.
struct alignas(16) RowFour {
  float at[4];
};
struct alignas(8) RowFourHalves {
  u16 at[4];
};

// Numbers `at` to `at + 3`, of which `left` belong to the row and others are zeros.
__device__ __forceinline__ RowFour row_four(const void* from, u32 type, u64 at, u32 left) {
  RowFour four;
  if (left >= 4 && at % 4 == 0) {
    if (type == TYPE_F32) return *(const RowFour*)((const float*)from + at);
    RowFourHalves halves = *(const RowFourHalves*)((const u16*)from + at);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      four.at[j] = type == TYPE_F16 ? from_f16(halves.at[j]) : widened(halves.at[j]);
    }
    return four;
  }
#pragma unroll
  for (u32 j = 0; j < 4; j++) four.at[j] = j < left ? stored(from, type, at + j) : 0.f;
  return four;
}

// Writes four numbers to a tensor of f32 or bfloat16; `at` is a multiple of 4.
__device__ __forceinline__ void row_put_four(void* to, u32 type, u64 at, RowFour four) {
  if (type == TYPE_F32) {
    *(RowFour*)((float*)to + at) = four;
  } else {
    RowFourHalves halves;
#pragma unroll
    for (int j = 0; j < 4; j++) halves.at[j] = narrowed(four.at[j]);
    *(RowFourHalves*)((u16*)to + at) = halves;
  }
}

// out[r] = scale * tokens[token[r]] (+ places[place[r] + first_place]) (+ kind), rounded after each
// step.
//
// token, place: [gridDim.x]; a token with the highest bit is one that the step before sampled, by its
// place in `sampled`. tokens: [vocabulary][width] of `tokens_type`. places, or null:
// [first_place + places][width] of `places_type`. kind, or null: [width]. out: [gridDim.x][stride].
// Grid: a block for each row. Block: up to 256 threads.
// Moves, for each row, the table rows and 4 width bytes. Adds numbers of one column only.
extern "C" __global__ void __launch_bounds__(256)
    embed(const u32* token, const u32* sampled, const u32* place, const void* tokens,
          u32 tokens_type, float scale, const void* places, u32 places_type, u32 first_place,
          const float* kind, float* out, u32 width, u32 stride) {
  u64 row = blockIdx.x;
  u32 id = token[row];
  if (id >> 31) id = sampled[id & 0x7fffffffu];
  u64 token_at = (u64)id * width;
  u64 place_at = places ? ((u64)place[row] + first_place) * width : 0;
  for (u32 i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    RowFour sum = row_four(tokens, tokens_type, token_at + i, width - i);
#pragma unroll
    for (int j = 0; j < 4; j++) sum.at[j] *= scale;
    if (places) {
      RowFour more = row_four(places, places_type, place_at + i, width - i);
#pragma unroll
      for (int j = 0; j < 4; j++) sum.at[j] += more.at[j];
    }
    if (kind) {
      RowFour more = row_four(kind, TYPE_F32, i, width - i);
#pragma unroll
      for (int j = 0; j < 4; j++) sum.at[j] += more.at[j];
    }
    row_put_four(out, TYPE_F32, row * stride + i, sum);
  }
}

// out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight (+ bias), where `rms` takes the mean
// for 0. The mean first, then the squares: no difference of large sums.
//
// x: [gridDim.x][stride]. weight: [width]. bias, or null: [width]. floats: [gridDim.x][stride].
// halves, or null: the same in bfloat16.
// Grid: a block for each row. Block: up to 256 threads.
// Moves 8 width bytes for each row (10 with halves): a row stays in the first-level cache after it
// was read once. About 8 width operations.
extern "C" __global__ void __launch_bounds__(256)
    norm_rows(const float* x, const float* weight, const float* bias, float eps, u32 rms,
              float* floats, u16* halves, u32 width, u32 stride) {
  __shared__ float scratch[32];
  u64 row = (u64)blockIdx.x * stride;
  u32 first = 4 * threadIdx.x, step = 4 * blockDim.x;
  float mean = 0.f;
  if (!rms) {
    float sum = 0.f;
    for (u32 i = first; i < width; i += step) {
      RowFour four = row_four(x, TYPE_F32, row + i, width - i);
      sum += (four.at[0] + four.at[1]) + (four.at[2] + four.at[3]);
    }
    mean = block_sum(sum, scratch) / (float)width;
  }
  float squares = 0.f;
  for (u32 i = first; i < width; i += step) {
    RowFour four = row_four(x, TYPE_F32, row + i, width - i);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      float distance = i + j < width ? four.at[j] - mean : 0.f;
      squares = fmaf(distance, distance, squares);
    }
  }
  float inverse = 1.f / sqrtf(block_sum(squares, scratch) / (float)width + eps);
  for (u32 i = first; i < width; i += step) {
    RowFour four = row_four(x, TYPE_F32, row + i, width - i);
    RowFour scale = row_four(weight, TYPE_F32, i, width - i);
#pragma unroll
    for (int j = 0; j < 4; j++) four.at[j] = (four.at[j] - mean) * inverse * scale.at[j];
    if (bias) {
      RowFour more = row_four(bias, TYPE_F32, i, width - i);
#pragma unroll
      for (int j = 0; j < 4; j++) four.at[j] += more.at[j];
    }
#pragma unroll
    for (u32 j = 0; j < 4; j++) four.at[j] = i + j < width ? four.at[j] : 0.f;
    row_put_four(floats, TYPE_F32, row + i, four);
    if (halves) row_put_four(halves, TYPE_BF16, row + i, four);
  }
}

// out[r][i] = activation(x[r][i]) * x[r][width + i].
//
// x: [gridDim.x][x_stride] of `x_type`. out: [gridDim.x][stride] of `type`; both f32 or bfloat16.
// Grid: (rows, ceil(width / (4 threads))). Block: up to 256 threads.
// Moves 3 width numbers for each row; an activation and a product for each result. Sums nothing.
extern "C" __global__ void __launch_bounds__(256)
    gate(const void* x, u32 x_type, u32 x_stride, u32 activation, void* out, u32 type, u32 width,
         u32 stride) {
  u32 i = 4 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (i >= width) return;
  u64 row = (u64)blockIdx.x * x_stride;
  RowFour gates = row_four(x, x_type, row + i, width - i);
  RowFour four = row_four(x, x_type, row + width + i, width - i);
#pragma unroll
  for (int j = 0; j < 4; j++) four.at[j] *= activated(activation, gates.at[j]);
  row_put_four(out, type, (u64)blockIdx.x * stride + i, four);
}

// out[i] = x[rows[i]].
//
// x: [..][stride] of f32 or bfloat16. rows: [gridDim.x]. out: [gridDim.x][stride].
// Grid: a block for each row of the result. Block: up to 256 threads.
// Moves 8 stride bytes for each row, or 6.
extern "C" __global__ void __launch_bounds__(256)
    gather(const void* x, u32 type, const u32* rows, float* out, u32 stride) {
  u64 from = (u64)rows[blockIdx.x] * stride, to = (u64)blockIdx.x * stride;
  for (u32 i = 4 * threadIdx.x; i < stride; i += 4 * blockDim.x) {
    row_put_four(out, TYPE_F32, to + i, row_four(x, type, from + i, 4));
  }
}

// Warps that share the rows of a text, and columns that they go over together.
enum { POOL_STRANDS = 8, POOL_COLUMNS = 128 };
// Ways to pool, as the host numbers them.
enum { POOL_MEAN = 0, POOL_FIRST = 1, POOL_LAST = 2 };

// out[s] = the mean, first or last of the rows of segment s; divided by its Euclidean length if
// `normalize`, unless that is 0. A segment without rows is left out.
//
// x: [..][stride] of f32 or bfloat16. segments: [gridDim.x] times first row and number of rows.
// out: [gridDim.x][stride].
// Grid: a block for each segment. Block: 256 threads; warp w adds rows w, w + 8, ... of 128 columns
// in order, then the warps' sums are added in order. The order depends on the number of rows alone.
// Moves the rows of x once and the result two times; an addition for each number of x.
extern "C" __global__ void __launch_bounds__(256)
    pool(const void* x, u32 type, const u32* segments, u32 way, u32 normalize, float* out,
         u32 width, u32 stride) {
  __shared__ RowFour sums[POOL_STRANDS][POOL_COLUMNS / 4];
  __shared__ float scratch[32];
  u64 first = segments[2 * blockIdx.x];
  u32 rows = segments[2 * blockIdx.x + 1];
  if (rows == 0) return;
  if (way == POOL_LAST) first += rows - 1;
  if (way != POOL_MEAN) rows = 1;
  u32 strand = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* row = out + (u64)blockIdx.x * stride;
  float squares = 0.f;
  for (u32 tile = 0; tile < stride; tile += POOL_COLUMNS) {
    u32 i = tile + 4 * lane;
    RowFour sum = {{0.f, 0.f, 0.f, 0.f}};
    if (i < stride) {
#pragma unroll 4
      for (u32 r = strand; r < rows; r += POOL_STRANDS) {
        RowFour four = row_four(x, type, (first + r) * stride + i, 4);
        for (int j = 0; j < 4; j++) sum.at[j] += four.at[j];
      }
    }
    __syncthreads();
    sums[strand][lane] = sum;
    __syncthreads();
    // One column for each thread of the first warps.
    u32 column = tile + threadIdx.x;
    if (threadIdx.x < POOL_COLUMNS && column < width) {
      float all = 0.f;
      for (int s = 0; s < POOL_STRANDS; s++) all += sums[s][threadIdx.x / 4].at[threadIdx.x % 4];
      all /= (float)rows;
      row[column] = all;
      squares = fmaf(all, all, squares);
    }
  }
  if (!normalize) return;
  float length = sqrtf(block_sum(squares, scratch));
  if (length == 0.f || threadIdx.x >= POOL_COLUMNS) return;
  // Each thread the numbers that it has written.
  for (u32 column = threadIdx.x; column < width; column += POOL_COLUMNS) row[column] /= length;
}

// to[i] = from[i], rounded to the nearest bfloat16.
//
// `fours` times four numbers. Grid: ceil(fours / 256). Block: 256 threads. Moves 6 bytes a number.
extern "C" __global__ void __launch_bounds__(256) narrow(const float* from, u16* to, u32 fours) {
  u32 four = blockIdx.x * 256 + threadIdx.x;
  if (four >= fours) return;
  row_put_four(to, TYPE_BF16, 4ull * four, row_four(from, TYPE_F32, 4ull * four, 4));
}

// to[i] = from[i], of bfloat16.
//
// `fours` times four numbers. Grid: ceil(fours / 256). Block: 256 threads. Moves 6 bytes a number.
extern "C" __global__ void __launch_bounds__(256) widen(const u16* from, float* to, u32 fours) {
  u32 four = blockIdx.x * 256 + threadIdx.x;
  if (four >= fours) return;
  row_put_four(to, TYPE_F32, 4ull * four, row_four(from, TYPE_BF16, 4ull * four, 4));
}

// Rows of bytes for products with bytes, as the CPU backend makes them: a byte b is worth b *
// scales[row], where the scale is the largest |x| of the row / 127. A row of which a number is not
// finite has the scale NaN, and so has every product with it. x: bf16, rows of `x_stride` numbers,
// zeros from k on; to: rows of `stride` bytes, a multiple of 64, zeros from k on.
//
// Grid: (rows), 256 threads: a block per row, which is read twice, the second time from the cache.
// Moves 3 k bytes of a row.
extern "C" __global__ void __launch_bounds__(256)
    quantise(const u16* x, u32 x_stride, i8* to, u32 stride, float* scales) {
  __shared__ float warps[32];
  const Four* row = (const Four*)(x + (u64)blockIdx.x * x_stride);
  float largest = 0.f, spoilt = 0.f;
  for (u32 i = threadIdx.x; i < x_stride / 8; i += 256) {
    Four eight = row[i];
    const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float size = fabsf(widened((u16)(pairs[j / 2] >> j % 2 * 16)));
      largest = fmaxf(largest, size);
      if (!(size < INFINITE)) spoilt = 1.f;
    }
  }
  spoilt = block_sum(spoilt, warps);
  largest = block_max(largest, warps);
  bool known = largest > 1e-35f;
  if (threadIdx.x == 0) {
    scales[blockIdx.x] = spoilt > 0.f ? NOT_A_NUMBER : known ? largest / 127.f : 0.f;
  }
  float inverse = known && !(spoilt > 0.f) ? 127.f / largest : 0.f;
  for (u32 i = threadIdx.x; i < stride / 8; i += 256) {
    Four eight = i < x_stride / 8 && inverse > 0.f ? row[i] : Four{0, 0, 0, 0};
    const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
    u32 words[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float number = widened((u16)(pairs[j / 2] >> j % 2 * 16));
      words[j / 4] |= ((u32)rounded_byte(number * inverse) & 255u) << j % 4 * 8;
    }
    *(Pair*)(to + (u64)blockIdx.x * stride + i * 8) = {words[0], words[1]};
  }
}

#ifdef EMU
EMU_REGISTER(embed)
EMU_REGISTER(norm_rows)
EMU_REGISTER(gate)
EMU_REGISTER(gather)
EMU_REGISTER(pool)
EMU_REGISTER(narrow)
EMU_REGISTER(widen)
EMU_REGISTER(quantise)
#endif
