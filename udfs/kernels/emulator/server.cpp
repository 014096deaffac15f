// The device of the tests: memory and kernels behind a pipe.
//
// A request on standard input is a letter and numbers, little-endian:
//   'A' u64 bytes                     -> u64 address of so many zeros
//   'F' u64 address                   -> nothing
//   'W' u64 address, u64 n, n bytes   -> nothing
//   'R' u64 address, u64 n            -> n bytes
//   'S' u32 bytes                     -> nothing; the most shared memory of a block from now on
//   'L' u32 n, n bytes of name, u32 grid[3], u32 threads, u32 shared, u32 n, u64 cells[n] -> nothing
//   'Q'                               -> nothing, and the process ends
// An answer is a byte 0 and what the request gives, or a byte 1, u32 n and n bytes of text. A kernel
// that reads or writes where it must not ends the process, with a report on standard error.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <map>
#include <vector>

#include "emu.h"

#ifndef EMU_UCONTEXT
asm(R"(
.text
.globl emu_switch
.type emu_switch, @function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emu_switch, .-emu_switch
)");
#endif

extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0:exitcode=5";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1:exitcode=5"; }

namespace {

constexpr uint64_t LARGEST = 1ull << 32;  // bytes of a piece of memory
constexpr int SECONDS = 60;               // of processor time for a launch

std::map<uint64_t, uint64_t> pieces;  // address -> bytes
uint32_t shared_most = emu::SHARED;

// The piece that holds [address, address + bytes).
bool holds(uint64_t address, uint64_t bytes) {
  auto after = pieces.upper_bound(address);
  if (after == pieces.begin()) return false;
  const auto& [start, length] = *--after;
  const uint64_t place = address - start;
  return place <= length && bytes <= length - place;
}

void read_all(void* to, size_t bytes) {
  if (fread(to, 1, bytes, stdin) != bytes) _Exit(0);  // nobody is there any more
}

template <class T>
T number() {
  T value;
  read_all(&value, sizeof value);
  return value;
}

void refuse(const std::string& text) {
  const uint32_t length = (uint32_t)text.size();
  putchar(1);
  fwrite(&length, 4, 1, stdout);
  fwrite(text.data(), 1, length, stdout);
}

void alloc() {
  const uint64_t bytes = number<uint64_t>();
  void* at = nullptr;
  if (bytes > LARGEST || posix_memalign(&at, 256, bytes)) return refuse("no memory");
  memset(at, 0, bytes);
  const uint64_t address = (uint64_t)at;
  pieces[address] = bytes;
  putchar(0);
  fwrite(&address, 8, 1, stdout);
}

void give_back() {
  const uint64_t address = number<uint64_t>();
  if (!pieces.erase(address)) return refuse("there is no memory at that address");
  free((void*)address);
  putchar(0);
}

void write_memory() {
  const uint64_t address = number<uint64_t>(), bytes = number<uint64_t>();
  if (!holds(address, bytes)) {
    for (uint64_t i = 0; i < bytes; i++) number<char>();
    return refuse("a copy to the device goes beyond its memory");
  }
  read_all((void*)address, bytes);
  putchar(0);
}

void read_memory() {
  const uint64_t address = number<uint64_t>(), bytes = number<uint64_t>();
  if (!holds(address, bytes)) return refuse("a copy from the device goes beyond its memory");
  putchar(0);
  fwrite((const void*)address, 1, bytes, stdout);
}

std::string run(const std::string& name, const emu::Launch& launch) {
  const auto found = emu::kernels().find(name);
  if (found == emu::kernels().end()) return "there is no such kernel";
  for (int i = 0; i < 3; i++) {
    const uint64_t most = i ? 65535 : 2147483647;
    if (!launch.grid[i] || launch.grid[i] > most) return "the grid is not one that a GPU takes";
  }
  if (!launch.threads || launch.threads > emu::THREADS) return "a block has 1 to 1024 threads";
  if (launch.shared > shared_most) {
    return "a block has at most " + std::to_string(shared_most) + " bytes of shared memory";
  }
  emu::kernel = found->first.c_str();
  const itimerval limit = {{0, 0}, {SECONDS, 0}}, none = {};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  const std::string error = found->second(launch);
  setitimer(ITIMER_VIRTUAL, &none, nullptr);
  return error;
}

void limit() {
  const uint32_t bytes = number<uint32_t>();
  if (bytes > emu::SHARED) return refuse("no GPU gives a block so much shared memory");
  shared_most = bytes;
  putchar(0);
}

void launch() {
  std::string name(number<uint32_t>(), ' ');
  read_all(&name[0], name.size());
  emu::Launch launch;
  for (uint32_t& side : launch.grid) side = number<uint32_t>();
  launch.threads = number<uint32_t>();
  launch.shared = number<uint32_t>();
  launch.args = number<uint32_t>();
  std::vector<uint64_t> cells(launch.args);
  read_all(cells.data(), 8 * cells.size());
  launch.cells = cells.data();
  const std::string error = run(name, launch);
  if (!error.empty()) return refuse("kernel " + name + ": " + error);
  putchar(0);
}

void too_long(int) {
  const char text[] = "emu: a launch took more than 60 seconds, or never ends\n";
  (void)!write(2, text, sizeof text - 1);
  _exit(6);
}

}  // namespace

bool emu_known(uint64_t address) { return holds(address, 0); }

int main() {
  signal(SIGVTALRM, too_long);
  for (;;) {
    switch (number<char>()) {
      case 'A':
        alloc();
        break;
      case 'F':
        give_back();
        break;
      case 'W':
        write_memory();
        break;
      case 'R':
        read_memory();
        break;
      case 'S':
        limit();
        break;
      case 'L':
        launch();
        break;
      case 'Q':
        return 0;
      default:
        fprintf(stderr, "emu: a request that nobody knows\n");
        return 2;
    }
    fflush(stdout);
  }
}
