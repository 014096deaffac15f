// Weights of a checkpoint to the order in which products read them. Each runs once per matrix and
// block of it, when a model is loaded: what it moves is the stored numbers and the packed ones.
//
// All take `from`, where number (o, i) of the piece, for output o < n and input i < k, is
// stored at o * output_step + i * input_step (torch's Linear: k and 1; GPT-2's Conv1D: 1 and the
// outputs of the block) with a type as `stored` knows it; and `to`, all of the matrix, which holds
// zeros where no output or input is. The piece's first output is output `first` of the matrix.
// For the tensor cores, groups of 16 outputs and tiles of 64 bytes follow one another: [n / 16][tiles]
// fragments.

// Fragments of bf16: [16 outputs][4 lanes][8 inputs]. A group of four lanes shares an output, and
// what mma takes of lane l in its two steps lies together: the inputs 2 l, 2 l + 1 of each 8 of
// the 32.
//
// Grid: (groups of 8 outputs that the piece touches, ceil(tiles / 8)), 256 threads: a warp writes 8
// outputs of a tile.
extern "C" __global__ void __launch_bounds__(256)
    pack_bf16(const void* from, u32 type, u64 output_step, u64 input_step, u32 first, u32 n, u32 k,
              Four* to) {
  u32 tiles = (k + 31) / 32, tile = blockIdx.y * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 output = (first / 8 + blockIdx.x) * 8 + lane / 4;
  if (tile >= tiles || output < first || output >= first + n) return;
  float eight[8];
  for (u32 i = 0; i < 8; i++) {
    u32 input = tile * 32 + i / 2 * 8 + lane % 4 * 2 + i % 2;
    u64 at = (u64)(output - first) * output_step + (u64)input * input_step;
    eight[i] = input < k ? stored(from, type, at) : 0.f;
  }
  Four pairs = {two_halves(eight[0], eight[1]), two_halves(eight[2], eight[3]),
                two_halves(eight[4], eight[5]), two_halves(eight[6], eight[7])};
  to[((u64)(output / 16) * tiles + tile) * 64 + output % 16 * 4 + lane % 4] = pairs;
}

// Fragments of bytes: [16 outputs][4 lanes][16 bytes], a byte b worth b * scales[output], where the
// scale is the largest |weight| of the output / 127. As of bf16, a group of four lanes shares an
// output, and what mma takes of lane l in its two steps lies together: the inputs 4 l to 4 l + 3 of
// each 16 of the 64. Weights that are no numbers make the scale NaN, and so every product with them.
//
// Grid: (n), 256 threads: a block per output, which is read twice.
extern "C" __global__ void __launch_bounds__(256)
    pack_int8(const void* from, u32 type, u64 output_step, u64 input_step, u32 first, u32 n, u32 k,
              u32* to, float* scales) {
  __shared__ float warps[32];
  u32 output = first + blockIdx.x, tiles = (k + 63) / 64;
  u64 start = (u64)blockIdx.x * output_step;
  float largest = 0.f, spoilt = 0.f;
  for (u32 i = threadIdx.x; i < k; i += 256) {
    float size = fabsf(stored(from, type, start + (u64)i * input_step));
    largest = fmaxf(largest, size);
    if (!(size < INFINITE)) spoilt = 1.f;
  }
  spoilt = block_sum(spoilt, warps);
  largest = block_max(largest, warps);
  if (threadIdx.x == 0) scales[output] = spoilt > 0.f ? NOT_A_NUMBER : largest / 127.f;
  // f32 cannot divide 127 by what is smaller; what is spoilt stays zeros.
  float inverse = largest > 1e-35f ? 127.f / largest : 0.f;
  if (spoilt > 0.f) return;
  for (u32 i = threadIdx.x; i < tiles * 16; i += 256) {
    u32 tile = i / 16, l = i / 4 % 4, part = i % 4, word = 0;
    for (u32 byte = 0; byte < 4; byte++) {
      u32 input = tile * 64 + part * 16 + l * 4 + byte;
      float w = input < k ? stored(from, type, start + (u64)input * input_step) : 0.f;
      word |= ((u32)rounded_byte(w * inverse) & 255u) << 8 * byte;
    }
    to[((u64)(output / 16) * tiles + tile) * 256 + (output % 16 * 4 + l) * 4 + part] = word;
  }
}

// f32: [n / 64][k, up to a multiple of 32][64 outputs].
//
// Grid: (groups of 64 outputs that the piece touches, ceil(k / 4)), 256 threads: 64 outputs of 4
// inputs.
extern "C" __global__ void __launch_bounds__(256)
    pack_f32(const void* from, u32 type, u64 output_step, u64 input_step, u32 first, u32 n, u32 k,
             float* to) {
  u32 group = first / 64 + blockIdx.x, output = group * 64 + threadIdx.x % 64;
  u32 input = blockIdx.y * 4 + threadIdx.x / 64;
  if (input >= k || output < first || output >= first + n) return;
  u64 depth = (u64)(k + 31) / 32 * 32;
  u64 at = (u64)(output - first) * output_step + (u64)input * input_step;
  to[((u64)group * depth + input) * 64 + threadIdx.x % 64] = stored(from, type, at);
}

// bf16 as cuBLASLt reads it: [n][k, up to a multiple of 32].
//
// Grid: (n, ceil(k / 256)), 256 threads: a number each.
extern "C" __global__ void __launch_bounds__(256)
    pack_plain(const void* from, u32 type, u64 output_step, u64 input_step, u32 first, u32 n, u32 k,
               u16* to) {
  u32 output = blockIdx.x, input = blockIdx.y * 256 + threadIdx.x;
  if (input >= k) return;
  u64 depth = (u64)(k + 31) / 32 * 32;
  u64 at = (u64)output * output_step + (u64)input * input_step;
  to[(first + output) * depth + input] = narrowed(stored(from, type, at));
}

#ifdef EMU
EMU_REGISTER(pack_bf16)
EMU_REGISTER(pack_int8)
EMU_REGISTER(pack_f32)
EMU_REGISTER(pack_plain)
#endif
