// The `count` of n vectors whose inner product with a query is largest, for q queries of d numbers.
//
// A candidate is one number, its key: the score's bits, made to rise as the score does, above the
// complement of the vector's number. So a greater key is a greater score, or the same with a
// smaller number; 0 is no candidate, and neither is a score that is NaN. A score is one chain of
// fused operations in the order of the d numbers, and keys are all different: the result does not
// depend on how vectors and queries are cut into blocks, and lists may be merged in any order.
//
// Cost: 2 q n d operations and 4 n d bytes of vectors for each 32 queries, whose result is 8 q
// count bytes per block. With 32 queries an H200 is at the bound of its memory (4.3 TB/s) and of
// its f32 arithmetic (67 TFLOP/s) at the same time, with fewer at that of its memory.

#define NEAREST_MAX 128      // candidates of a list
#define NEAREST_QUERIES 32   // queries of a block
#define NEAREST_VECTORS 128  // vectors of a tile

__device__ __forceinline__ u64 key_of(float score, u32 vector) {
  if (!(score == score)) return 0;
  u32 bits = __float_as_uint(score + 0.f);  // -0 is 0
  bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
  return (u64)bits << 32 | (u32)~vector;
}

// Puts the keys of a warp's lanes into a list of `count` keys, greatest first, in shared memory,
// as far as they belong there.
__device__ __forceinline__ void insert_keys(u64* list, u32 count, u64 key) {
  u32 lane = threadIdx.x % 32;
  for (;;) {
    u32 better = __ballot_sync(FULL, key > list[count - 1]);
    if (!better) return;
    int first = __ffs((int)better) - 1;
    u64 next = __shfl_sync(FULL, key, first);
    if ((int)lane == first) key = 0;
    // Greater keys stay, the others move down by one.
    u64 moved[NEAREST_MAX / 32];
#pragma unroll
    for (u32 i = 0; i < NEAREST_MAX / 32; i++) {
      u32 place = i * 32 + lane;
      if (place >= count) continue;
      u64 above = place ? list[place - 1] : ~0ull;
      moved[i] = list[place] > next ? list[place] : above > next ? next : above;
    }
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < NEAREST_MAX / 32; i++) {
      if (i * 32 + lane < count) list[i * 32 + lane] = moved[i];
    }
    __syncwarp();
  }
}

// Lists of the vectors of each block: queries [q][d], vectors [n][d], lists [q][blocks][count]. A
// block has `tiles` tiles of 128 vectors, one after the other, by 32 queries: a tile's scores are
// made by 256 threads of 4 by 4 of them, and then 8 warps put them into the lists of 4 queries
// each.
//
// Grid: (blocks, ceil(q / 32)), 256 threads, 32 count * 8 bytes of shared memory.
extern "C" __global__ void __launch_bounds__(256)
    nearest_block(const float* queries, u32 q, const float* vectors, u32 n, u32 d, u32 count,
                  u32 tiles, u64* lists) {
  __shared__ float asked[32][NEAREST_QUERIES + 4], held[32][NEAREST_VECTORS + 4];
  __shared__ float scores[NEAREST_QUERIES][NEAREST_VECTORS];
  DYNAMIC_SHARED(shared);
  u64* best = (u64*)shared;
  u32 first_query = blockIdx.y * NEAREST_QUERIES, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (u32 i = threadIdx.x; i < NEAREST_QUERIES * count; i += 256) best[i] = 0;

  for (u32 tile = 0; tile < tiles; tile++) {
    u64 first = ((u64)blockIdx.x * tiles + tile) * NEAREST_VECTORS;
    if (first >= n) break;
    float sums[4][4] = {};
    for (u32 start = 0; start < d; start += 32) {
      bool inside = start + lane < d;
      for (u32 row = warp; row < NEAREST_QUERIES; row += 8) {
        u32 query = first_query + row;
        asked[lane][row] = inside && query < q ? queries[(u64)query * d + start + lane] : 0.f;
      }
      for (u32 row = warp; row < NEAREST_VECTORS; row += 8) {
        u64 vector = first + row;
        held[lane][row] = inside && vector < n ? vectors[vector * d + start + lane] : 0.f;
      }
      __syncthreads();
      u32 end = d - start < 32 ? d - start : 32;
      for (u32 i = 0; i < end; i++) {
#pragma unroll
        for (int j = 0; j < 16; j++) {
          float& sum = sums[j / 4][j % 4];
          sum = fmaf(asked[i][warp * 4 + j / 4], held[i][lane * 4 + j % 4], sum);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 16; j++) scores[warp * 4 + j / 4][lane * 4 + j % 4] = sums[j / 4][j % 4];
    __syncthreads();
    for (u32 query = warp * 4; query < warp * 4 + 4 && first_query + query < q; query++) {
      for (u32 i = lane; i < NEAREST_VECTORS; i += 32) {
        u64 vector = first + i;
        u64 key = vector < n ? key_of(scores[query][i], (u32)vector) : 0;
        insert_keys(best + query * count, count, key);
      }
    }
    __syncthreads();
  }

  for (u32 i = threadIdx.x; i < NEAREST_QUERIES * count; i += 256) {
    u32 query = first_query + i / count;
    if (query < q) lists[((u64)query * gridDim.x + blockIdx.x) * count + i % count] = best[i];
  }
}

// One list of all blocks': lists [q][keys] to nearest [q][count]. Each of 8 warps merges a part,
// then the first merges what they have.
//
// Grid: (q), 256 threads.
extern "C" __global__ void __launch_bounds__(256)
    nearest_merge(const u64* lists, u32 keys, u32 count, u64* nearest) {
  __shared__ u64 best[8][NEAREST_MAX];
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (u32 i = lane; i < count; i += 32) best[warp][i] = 0;
  __syncwarp();
  const u64* list = lists + (u64)blockIdx.x * keys;
  for (u32 start = warp * 32; start < keys; start += 256) {
    insert_keys(best[warp], count, start + lane < keys ? list[start + lane] : 0);
  }
  __syncthreads();
  if (warp) return;
  for (u32 other = 1; other < 8; other++) {
    for (u32 start = 0; start < count; start += 32) {
      insert_keys(best[0], count, start + lane < count ? best[other][start + lane] : 0);
    }
  }
  for (u32 i = lane; i < count; i += 32) nearest[(u64)blockIdx.x * count + i] = best[0][i];
}

#ifdef EMU
EMU_REGISTER(nearest_block)
EMU_REGISTER(nearest_merge)
#endif
