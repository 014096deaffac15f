// Copies to shared memory that run beside the kernel (cp.async).
//
// On a GPU such a copy is done at some time between its beginning and the end of the wait for it. Here
// it is done as late as that allows where threads run first to last, and at once in any other order: so
// a forgotten wait shows in the one, and a copy begun while others still read in the other.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>

#include "block.h"

namespace emu {

struct Copy {
  void* to;
  const void* from;  // null: zeros
  unsigned group;
};

struct Copies {
  std::deque<Copy> waiting;
  unsigned group = 0;  // the one that is not committed yet
};

inline Copies copies[THREADS];

inline void carry_out(const Copy& copy) {
  if (copy.from) {
    memcpy(copy.to, copy.from, 16);
  } else {
    memset(copy.to, 0, 16);
  }
}

inline void begin_copy(void* to, const void* from, bool valid) {
  if ((uintptr_t)to % 16 || (valid && (uintptr_t)from % 16)) fail("a copy is not aligned to 16 bytes");
  const Copy copy = {to, valid ? from : nullptr, copies[running].group};
  bool now = !order.forward();
#ifdef EMU_ASAN
  // Whoever copies what he must not is to be seen in the report.
  now |= __asan_region_is_poisoned(to, 16) || (valid && __asan_region_is_poisoned((void*)from, 16));
#endif
  if (now) return carry_out(copy);
  copies[running].waiting.push_back(copy);
}

// What a thread of an earlier block did not wait for.
inline void forget_copies(int thread) {
  if (!copies[thread].waiting.empty() || copies[thread].group) copies[thread] = {};
}

inline void commit_copies() { copies[running].group++; }

// Until at most `groups` of the committed groups are under way.
inline void wait_for_copies(unsigned groups) {
  Copies& own = copies[running];
  while (!own.waiting.empty() && own.waiting.front().group + groups < own.group) {
    carry_out(own.waiting.front());
    own.waiting.pop_front();
  }
}

}  // namespace emu
