// What a warp does together with tensor cores: products of tiles, and the loads that feed them.
#pragma once

#include <cstdint>
#include <cstring>

#include "warp.h"

// Lane `lane`'s part of C[16][8] += A[16][16] B[16][8], where each lane of the warp shows six words:
// four of A, two of B. Defined in tile.cpp, which is compiled without sanitizers: it is most of what an
// emulated product costs, and reads nothing of a kernel's.
extern "C" void emu_tile(float* c, const uint32_t (*lanes)[8], int lane);
// The same of signed bytes: C[16][8] += A[16][32] B[32][8].
extern "C" void emu_tile_of_bytes(int* c, const uint32_t (*lanes)[8], int lane);

namespace emu {

// Two sets take turns, as in `exchange`.
inline uint32_t tiles[2][THREADS][8];

inline const uint32_t (*show(Act what, const void* from, size_t bytes))[8] {
  const int self = running, first = self - lane(), at = set[self] ^= 1;
  memcpy(tiles[at][self], from, bytes);
  sync_warp(what, ~0u);
  if (party[self] != ~0u) fail("not all lanes of a warp take part in an operation on tiles");
  return &tiles[at][first];
}

// As the PTX manual spreads mma.m16n8k16 over a warp.
inline void mma(float* c, const uint32_t* a, const uint32_t* b) {
  const uint32_t words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  emu_tile(c, show(TILE, words, sizeof words), lane());
}

// As mma.m16n8k32 of signed bytes.
inline void mma(int* c, const uint32_t* a, const uint32_t* b) {
  const uint32_t words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  emu_tile_of_bytes(c, show(TILE, words, sizeof words), lane());
}

// As ldmatrix.x4: lane l gives row l % 8 of matrix l / 8 and gets of each matrix the halves
// 2 (l % 4) and the next one of row l / 4; of the transposed matrix if told.
inline void load_matrices(uint32_t* out, const void* row, bool transposed) {
  if ((uintptr_t)row % 16) fail("a row of a matrix is not aligned to 16 bytes");
  const auto lanes = show(MATRICES, row, 16);
  const int l = lane(), line = l / 4, pair = l % 4;
  for (int i = 0; i < 4; i++) {
    const uint32_t(*matrix)[8] = &lanes[8 * i];
    if (!transposed) {
      out[i] = matrix[line][pair];
      continue;
    }
    const int word = line / 2, shift = line % 2 * 16;
    const uint32_t low = matrix[2 * pair][word] >> shift & 0xffffu;
    const uint32_t high = matrix[2 * pair + 1][word] >> shift & 0xffffu;
    out[i] = low | high << 16;
  }
}

}  // namespace emu
