// A lane's part of a product of tiles.
#include <cstdint>
#include <cstring>

static inline float half(uint32_t word, int which) {
  const uint32_t bits = which ? word & 0xffff0000u : word << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

// Row r of A lies with lanes 4 r..4 r + 4 (r % 8): its columns 2 p and 2 p + 1 with lane p in word
// r / 8, columns 8 more in word r / 8 + 2. Column n of B lies with lanes 4 n..4 n + 4 in words 4 and 5.
extern "C" void emu_tile(float* c, const uint32_t (*lanes)[8], int lane) {
  float rows[2][16], columns[2][16];
  for (int side = 0; side < 2; side++) {
    for (int k = 0; k < 16; k++) {
      const int p = k % 8 / 2, upper = k / 8;
      rows[side][k] = half(lanes[lane / 4 * 4 + p][side + 2 * upper], k % 2);
      columns[side][k] = half(lanes[(lane % 4 * 2 + side) * 4 + p][4 + upper], k % 2);
    }
  }
  for (int i = 0; i < 4; i++) {
    float sum = c[i];
    for (int k = 0; k < 16; k++) sum += rows[i / 2][k] * columns[i % 2][k];
    c[i] = sum;
  }
}

// As above, with four columns of A or rows of B in a word, and the next 16 in the next words.
extern "C" void emu_tile_of_bytes(int* c, const uint32_t (*lanes)[8], int lane) {
  for (int i = 0; i < 4; i++) {
    const int side = i / 2, column = lane % 4 * 2 + i % 2;
    int sum = 0;
    for (int k = 0; k < 32; k++) {
      const int p = k % 16 / 4, upper = k / 16, shift = k % 4 * 8;
      const int8_t a = (int8_t)(lanes[lane / 4 * 4 + p][side + 2 * upper] >> shift);
      const int8_t b = (int8_t)(lanes[column * 4 + p][4 + upper] >> shift);
      sum += a * b;
    }
    c[i] += sum;
  }
}
