// Barriers, shuffles and votes.
#pragma once

#include <cstring>

#include "block.h"

inline void __syncthreads() { emu::sync_block(emu::SYNC); }
inline void __syncwarp(unsigned mask = ~0u) { emu::sync_warp(emu::SYNC, mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

namespace emu {

// What lanes show each other. Two sets take turns where all lanes take part: nobody writes to a set
// again before all have been at the barrier after it. Where a mask names some lanes only, a third
// is used, with a barrier before it is free again.
inline uint64_t shown[3][THREADS];

// What `pick` makes of the words of the warp's lanes and of the lanes that took part.
template <class F>
auto exchange(Act what, unsigned mask, uint64_t word, F pick) {
  const int self = running, first = self - lane();
  const int at = mask == ~0u ? set[self] ^= 1 : 2;
  shown[at][self] = word;
  sync_warp(what, mask);
  const auto result = pick(&shown[at][first], party[self]);
  if (at == 2) sync_warp(what, mask);
  return result;
}

template <class T>
T shuffled(unsigned mask, T value, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle takes numbers of 4 or 8 bytes");
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  word = exchange(SHUFFLE, mask, word, [=](const uint64_t* words, unsigned lanes) {
    if (!(lanes >> source & 1)) fail("a shuffle reads a lane that does not take part");
    return words[source];
  });
  memcpy(&value, &word, sizeof value);
  return value;
}

// The lanes of `mask` for which `predicate` holds.
inline unsigned ballot(unsigned mask, bool predicate) {
  return exchange(VOTE, mask, predicate, [](const uint64_t* words, unsigned lanes) {
    unsigned all = 0;
    for (int i = 0; i < 32; i++) {
      if ((lanes >> i & 1) && words[i]) all |= 1u << i;
    }
    return all;
  });
}

// The words of all lanes put together, in the order of the lanes.
template <class T, class F>
T reduced(unsigned mask, T value, F join) {
  return exchange(VOTE, mask, (uint64_t)value, [=](const uint64_t* words, unsigned lanes) {
    T all{};
    bool any = false;
    for (int i = 0; i < 32; i++) {
      if (!(lanes >> i & 1)) continue;
      all = any ? join(all, (T)words[i]) : (T)words[i];
      any = true;
    }
    return all;
  });
}

inline bool holds[THREADS];

// How many threads of the block say that `predicate` holds; threads that have ended say nothing.
inline int agreed(Act what, bool predicate) {
  holds[running] = predicate;
  sync_block(what);
  int sum = 0;
  for (int i = 0; i < count; i++) sum += state[i] != DONE && holds[i];
  sync_block(what);
  return sum;
}

}  // namespace emu

inline int __syncthreads_count(int p) { return emu::agreed(emu::SYNC_COUNT, p != 0); }
inline int __syncthreads_or(int p) { return emu::agreed(emu::SYNC_OR, p != 0) != 0; }
inline int __syncthreads_and(int p) { return emu::agreed(emu::SYNC_AND, p == 0) == 0; }

inline unsigned __ballot_sync(unsigned mask, int p) { return emu::ballot(mask, p != 0); }
inline int __any_sync(unsigned mask, int p) { return emu::ballot(mask, p != 0) != 0; }
inline int __all_sync(unsigned mask, int p) { return emu::ballot(mask, p == 0) == 0; }

// `width` splits a warp into groups, as in CUDA.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int first = emu::lane() & ~(width - 1);
  return emu::shuffled(mask, value, first + (source & (width - 1)));
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int offset, int width = 32) {
  const int lane = emu::lane(), source = lane ^ offset;
  return emu::shuffled(mask, value, source / width > lane / width ? lane : source);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, int offset, int width = 32) {
  const int lane = emu::lane(), source = lane + offset;
  return emu::shuffled(mask, value, source / width == lane / width ? source : lane);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, int offset, int width = 32) {
  const int lane = emu::lane(), source = lane - offset;
  return emu::shuffled(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}

// Integers only, as on the device.
template <class T>
T __reduce_add_sync(unsigned mask, T value) {
  return emu::reduced(mask, value, [](T a, T b) { return (T)(a + b); });
}

template <class T>
T __reduce_max_sync(unsigned mask, T value) {
  return emu::reduced(mask, value, [](T a, T b) { return a < b ? b : a; });
}

template <class T>
T __reduce_min_sync(unsigned mask, T value) {
  return emu::reduced(mask, value, [](T a, T b) { return b < a ? b : a; });
}

inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return emu::reduced(mask, value, [](unsigned a, unsigned b) { return a | b; });
}
