// Runs CUDA kernels on the CPU, for tests: one fiber per CUDA thread, blocks one after another.
// A kernel's file includes it when EMU is defined; NVRTC and nvcc never see it.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "block.h"
#include "copies.h"
#include "device.h"
#include "tensor.h"
#include "warp.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// One copy for the process is the block's own, because blocks run in turn. All lie in one section,
// which is overwritten before each block. The section's name is not a constant of a template's
// instance in older compilers; those variables then work but are not overwritten.
#define __shared__ static __attribute__((section("emu_shared")))

#define threadIdx (emu::ids[emu::running])
#define blockIdx (emu::block)
#define blockDim (emu::size)
#define gridDim (emu::grid)

// Whether an address lies in memory of the device, or is the end of one. Defined in server.cpp.
bool emu_known(uint64_t address);

namespace emu {

struct Launch {
  uint32_t grid[3];
  uint32_t threads;
  uint32_t shared;
  const uint64_t* cells;
  uint32_t args;
};

// What is wrong with argument `i`, or nothing.
template <class A>
std::string wrong(uint64_t cell, size_t i) {
  const std::string which = "argument " + std::to_string(i);
  if constexpr (std::is_pointer_v<A>) {
    if (cell && !emu_known(cell)) return which + " is a pointer to no memory of the device";
  } else {
    static_assert(std::is_arithmetic_v<A> && (sizeof(A) == 4 || sizeof(A) == 8),
                  "arguments are pointers and numbers of 4 or 8 bytes");
    if (sizeof(A) == 4 && cell >> 32) return which + " is a number of 4 bytes, the cell has 8";
  }
  return "";
}

template <class A>
A argument(uint64_t cell) {
  A a;
  memcpy(&a, &cell, sizeof a);
  return a;
}

// Runs all blocks; a text if the arguments do not fit.
template <class... A, size_t... I>
std::string run(void (*kernel)(A...), const Launch& launch, std::index_sequence<I...>) {
  if (launch.args != sizeof...(A)) {
    return "it has " + std::to_string(sizeof...(A)) + " arguments, not " +
           std::to_string(launch.args);
  }
  std::string all;
  (void)(... && (all = wrong<A>(launch.cells[I], I)).empty());
  if (!all.empty()) return all;

  const uint64_t* cells = launch.cells;
  body = [=] { kernel(argument<A>(cells[I])...); };
  grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
  size = {launch.threads, 1, 1};
  const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks; i++) {
    const uint64_t b = order.reversed ? blocks - 1 - i : i;
    block = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
             (unsigned)(b / grid.x / grid.y)};
    run_block(launch.shared);
  }
  return "";
}

using Kernel = std::function<std::string(const Launch&)>;

inline std::unordered_map<std::string, Kernel>& kernels() {
  static std::unordered_map<std::string, Kernel> all;
  return all;
}

template <class... A>
bool enter(const char* name, void (*kernel)(A...)) {
  kernels()[name] = [=](const Launch& launch) {
    return run(kernel, launch, std::index_sequence_for<A...>{});
  };
  return true;
}

}  // namespace emu

// At the end of a file, once per kernel.
#define EMU_REGISTER(k) [[maybe_unused]] static const bool emu_has_##k = emu::enter(#k, k);
