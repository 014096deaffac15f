// A block of threads: who runs next, barriers, shared memory.
//
// The threads of a warp run one after the other, each until it waits at a barrier or ends; a warp
// goes on until it waits at a barrier of the block; then comes the next warp. In which order is
// EMU_ORDER: `forward`, `reversed`, or a number, from which a new order is drawn for every pass. A
// kernel without races gives the same bits in any.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "fiber.h"

struct emu_dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// What `__shared__` variables are; bounds of the section they lie in.
extern "C" char __start_emu_shared[] __attribute__((weak));
extern "C" char __stop_emu_shared[] __attribute__((weak));

namespace emu {

constexpr int THREADS = 1024;
// The most a block can ask for on any GPU: on sm_90.
constexpr unsigned SHARED = 232448;
// What memory of a block holds before anything is written: NaN in f32 and bf16.
constexpr int POISON = 0xff;

enum State : unsigned char { RUN, DONE, WARP, BLOCK };
// What threads wait for each other to do; all must mean the same.
enum Act : unsigned char { SYNC, SHUFFLE, VOTE, TILE, MATRICES, SYNC_COUNT, SYNC_OR, SYNC_AND };

inline Context threads[THREADS];
inline Context scheduler;
inline bool entered = false;       // whether the scheduler's stack is known
inline emu_dim3 ids[THREADS];      // threadIdx
inline State state[THREADS];
inline Act act[THREADS];
inline unsigned masks[THREADS];    // of the warp barrier at which a thread waits
inline unsigned party[THREADS];    // lanes that passed the last warp barrier with a thread
inline unsigned char set[THREADS]; // see warp.h
inline int count = 0;              // threads of the block
inline int running = 0;            // the present one
inline emu_dim3 block, size, grid;  // blockIdx, blockDim, gridDim
inline const char* kernel = "";    // its name, for messages
inline std::function<void()> body; // the kernel with its arguments

inline char dyn_smem[SHARED] __attribute__((aligned(1024)));

inline int warp() { return running / 32; }
inline int lane() { return running % 32; }

[[noreturn]] inline void fail(const char* what) {
  fprintf(stderr, "emu: %s, kernel %s, block (%u, %u, %u), thread %d of %d\n", what, kernel, block.x,
          block.y, block.z, running, count);
  fflush(nullptr);
  _Exit(3);
}

// The order of lanes and warps.
struct Order {
  uint64_t seed = 0;
  bool reversed = false;
  int lanes[32], warps[THREADS / 32];

  Order() {
    const char* told = getenv("EMU_ORDER");
    reversed = told && !strcmp(told, "reversed");
    seed = told ? strtoull(told, nullptr, 10) : 0;
    fill(lanes);
    fill(warps);
  }

  bool forward() const { return !reversed && !seed; }

  void fill(int (&places)[32]) {
    for (int i = 0; i < 32; i++) places[i] = reversed ? 31 - i : i;
  }

  void draw(int (&places)[32]) {
    if (!seed) return;
    for (int i = 31; i > 0; i--) {
      seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
      std::swap(places[i], places[seed % (i + 1)]);
    }
  }
};
inline Order order;
inline int turn_warp = 0, turn_lane = 0;  // places in the order

// Whether the lane must be waited for by a barrier of `mask`.
inline bool awaited(unsigned mask, int i) {
  return i < count && state[i] != DONE && (mask >> i % 32 & 1);
}

// Lets lanes of the warp that begins with `first` pass a barrier at which all that it names wait.
inline bool open_warp(int first) {
  bool opened = false;
  for (int i = first; i < first + 32 && i < count; i++) {
    if (state[i] != WARP) continue;
    const unsigned mask = masks[i];
    unsigned together = 0;
    bool all = true;
    for (int j = first; j < first + 32 && all; j++) {
      if (!awaited(mask, j)) continue;
      all = state[j] == WARP && masks[j] == mask;
      together |= 1u << j % 32;
    }
    if (!all) continue;
    for (int j = first; j < first + 32; j++) {
      if (!(together >> j % 32 & 1)) continue;
      if (act[j] != act[i]) fail("lanes of a warp wait for different operations");
      state[j] = RUN;
      party[j] = together;
    }
    opened = true;
  }
  return opened;
}

// Lets all threads pass the barrier of the block; false if none is left. No thread can run.
inline bool open_block() {
  int first = -1;
  for (int i = 0; i < count; i++) {
    if (state[i] == DONE) continue;
    if (first < 0) first = i;
    if (state[i] == WARP) running = i, fail("deadlock: a lane waits for its warp (divergent barrier)");
    if (act[i] != act[first]) running = i, fail("threads of a block wait at different barriers");
  }
  if (first < 0) return false;
  for (int i = 0; i < count; i++) {
    if (state[i] == BLOCK) state[i] = RUN;
  }
  return true;
}

// The thread that runs next; -1 when all have ended.
inline int next() {
  for (;;) {
    for (; turn_warp < 32; turn_warp++, turn_lane = 0, order.draw(order.lanes)) {
      const int first = order.warps[turn_warp] * 32;
      if (first >= count) continue;
      do {
        while (turn_lane < 32) {
          const int i = first + order.lanes[turn_lane++];
          if (i < count && state[i] == RUN) return i;
        }
        turn_lane = 0;
        order.draw(order.lanes);
      } while (open_warp(first));
    }
    turn_warp = turn_lane = 0;
    order.draw(order.warps);
    if (!open_block()) return -1;
  }
}

// The present thread waits; others run until its barrier opens.
inline void wait(State where, Act what, unsigned mask) {
  const int self = running;
  state[self] = where;
  act[self] = what;
  masks[self] = mask;
  const int other = next();
  if (other == self) return;
  running = other;
  switch_to(&threads[self], &threads[other]);
}

inline void sync_block(Act what) { wait(BLOCK, what, 0); }

inline void sync_warp(Act what, unsigned mask) {
  if (!(mask >> lane() & 1)) fail("a lane waits at a warp barrier whose mask does not name it");
  wait(WARP, what, mask);
}

// First and last function of every thread.
#if defined(__clang__) || defined(__GNUC__)
__attribute__((no_sanitize("address", "undefined")))
#endif
inline void life() {
  finish_switch(&threads[running], entered ? nullptr : &scheduler);
  entered = true;
  body();
  const int self = running;
  state[self] = DONE;
  const int other = next();
  if (other >= 0) running = other;
  switch_to(&threads[self], other < 0 ? &scheduler : &threads[other], true);
  abort();
}

// Overwrites shared variables; red zones between them are memory like any other here.
__attribute__((no_sanitize("address", "undefined"))) inline void poison(volatile char* from,
                                                                        volatile char* to) {
  for (; from < to && (uintptr_t)from % 8; from++) *from = (char)POISON;
  for (; from + 8 <= to; from += 8) *(volatile uint64_t*)from = ~0ull;
  for (; from < to; from++) *from = (char)POISON;
}

inline void forget_copies(int thread);

// Runs one block to its end, with `shared` bytes of dynamic shared memory.
inline void run_block(unsigned shared) {
  count = (int)size.x;
#ifdef EMU_ASAN
  __asan_unpoison_memory_region(dyn_smem, SHARED);
#endif
  memset(dyn_smem, POISON, shared);
#ifdef EMU_ASAN
  __asan_poison_memory_region(dyn_smem + shared, SHARED - shared);
#endif
  poison(__start_emu_shared, __stop_emu_shared);
  for (int i = 0; i < count; i++) {
    begin(&threads[i], life);
    ids[i] = {(unsigned)i, 0, 0};
    state[i] = RUN;
    set[i] = 0;
    forget_copies(i);
  }
  turn_warp = turn_lane = 0;
  running = next();
  switch_to(&scheduler, &threads[running]);
}

}  // namespace emu
