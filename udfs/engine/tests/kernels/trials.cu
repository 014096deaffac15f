// Kernels that try the emulator itself: some are right, some have the mistakes that it must find.

// Sum of a row per block, with two barriers; right.
extern "C" __global__ void sum_row(const float* x, float* sums, u32 n) {
  __shared__ float scratch[32];
  float s = 0.f;
  for (u32 i = threadIdx.x; i < n; i += blockDim.x) s += x[blockIdx.x * n + i];
  s = block_sum(s, scratch);
  if (threadIdx.x == 0) sums[blockIdx.x] = s;
}

// What the warp's operations give each lane: 12 numbers per lane.
extern "C" __global__ void lanes(u32* out) {
  const u32 lane = threadIdx.x % 32;
  u32* own = out + 12 * threadIdx.x;
  own[0] = __shfl_sync(FULL, lane, 5);
  own[1] = __shfl_sync(FULL, lane, 3, 8);
  own[2] = __shfl_xor_sync(FULL, lane, 9);
  own[3] = __shfl_down_sync(FULL, lane, 3, 16);
  own[4] = __shfl_up_sync(FULL, lane, 2);
  own[5] = __ballot_sync(FULL, lane % 3 == 0);
  own[6] = (u32)__any_sync(FULL, lane == 7) + 2u * (u32)__all_sync(FULL, lane < 31);
  own[7] = __reduce_add_sync(FULL, lane) + 1000u * __reduce_max_sync(FULL, lane ^ 1u);
  if (lane < 4) {
    own[8] = __shfl_xor_sync(15u, lane, 1);
    own[9] = __ballot_sync(15u, lane == 2);
  } else {
    own[8] = __shfl_sync(~15u, lane, 6);
    own[9] = __reduce_min_sync(~15u, lane);
  }
  own[10] = (u32)__syncthreads_count(lane == 0) + 100u * (u32)__syncthreads_or(threadIdx.x == 40) +
            1000u * (u32)__syncthreads_and(threadIdx.x != 40);
  own[11] = (u32)(__shfl_xor_sync(FULL, (u64)lane << 40, 2) >> 40);
}

// Every thread adds to a counter and takes a number.
extern "C" __global__ void numbers(u32* counter, u64* largest, u32* taken) {
  const u32 number = atomicAdd(counter, 1u);
  atomicMax(largest, (u64)number << 33);
  atomicOr(&taken[number / 32], 1u << number % 32);
}

// C = A B with one mma, A [16][16] and B [16][8] in bf16 as ldmatrix brings them.
extern "C" __global__ void tile(const u16* a, const u16* b, float* c) {
  __shared__ __align__(16) u16 left[256];
  __shared__ __align__(16) u16 right[128];
  const u32 lane = threadIdx.x;
  copy_async(&left[8 * lane], &a[8 * lane], true);
  copy_async(&right[8 * (lane % 16)], &b[8 * (lane % 16)], true);
  copies_commit();
  copies_wait<0>();
  __syncwarp();
  u32 x[4], y[4];
  load_matrices(x, &left[lane % 16 * 16 + lane / 16 * 8]);
  load_matrices_transposed(y, &right[lane % 16 * 8]);
  float sums[4] = {};
  mma(sums, x, y);
  for (u32 i = 0; i < 4; i++) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

// C = A B with one mma of bytes, A [16][32] and B [8][32], its columns one after the other.
extern "C" __global__ void tile_of_bytes(const u32* a, const u32* b, int* c) {
  const u32 lane = threadIdx.x, row = lane / 4, word = lane % 4;
  const u32 x[4] = {a[row * 8 + word], a[(row + 8) * 8 + word], a[row * 8 + 4 + word],
                    a[(row + 8) * 8 + 4 + word]};
  const u32 y[2] = {b[row * 8 + word], b[row * 8 + 4 + word]};
  int sums[4] = {};
  mma(sums, x, y);
  for (u32 i = 0; i < 4; i++) c[(row + i / 2 * 8) * 8 + word * 2 + i % 2] = sums[i];
}

// Wrong: no barrier between writing and reading.
extern "C" __global__ void race(float* out) {
  __shared__ float all[64];
  all[threadIdx.x] = (float)threadIdx.x;
  out[threadIdx.x] = all[63 - threadIdx.x];
}

// Wrong: reads shared memory that nobody wrote, static and dynamic.
extern "C" __global__ void unwritten(float* out) {
  __shared__ float all[2];
  DYNAMIC_SHARED(more);
  out[0] = all[1];
  out[1] = ((float*)more)[threadIdx.x];
}

// Wrong: number `place` of an array in static shared memory that has 4.
extern "C" __global__ void beyond_shared(float* out, u32 place) {
  __shared__ float few[4];
  few[place] = 1.f;
  __syncwarp();
  out[0] = few[0];
}

// Wrong: byte `place` of dynamic shared memory.
extern "C" __global__ void beyond_dynamic(u32* out, u32 place) {
  DYNAMIC_SHARED(all);
  out[0] = (u32)all[place];
}

// Wrong unless `place` is a multiple of 4: 16 bytes at once.
extern "C" __global__ void vector_load(const float* x, u32 place, u32* out) {
  const Four v = *(const Four*)(x + place);
  out[0] = v.x ^ v.y ^ v.z ^ v.w;
}

// Wrong: half a warp waits at another barrier.
extern "C" __global__ void divergent(u32* out) {
  if (threadIdx.x < 16) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

// Wrong: a lane that has left is asked.
extern "C" __global__ void left_early(u32* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_sync(FULL, threadIdx.x, 3);
}

#ifdef EMU
EMU_REGISTER(sum_row)
EMU_REGISTER(lanes)
EMU_REGISTER(numbers)
EMU_REGISTER(tile)
EMU_REGISTER(tile_of_bytes)
EMU_REGISTER(race)
EMU_REGISTER(unwritten)
EMU_REGISTER(beyond_shared)
EMU_REGISTER(beyond_dynamic)
EMU_REGISTER(vector_load)
EMU_REGISTER(divergent)
EMU_REGISTER(left_early)
#endif
