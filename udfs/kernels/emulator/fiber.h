// A stack of its own for every CUDA thread, and the switch from one to another.
//
// On x86-64 a switch is a dozen instructions; elsewhere it is ucontext's. Address sanitizer is told
// about every switch, so that its reports and its idea of "on the stack" are right.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif
#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) || defined(EMU_UCONTEXT)
#undef EMU_UCONTEXT
#define EMU_UCONTEXT 1
#include <ucontext.h>
#endif

namespace emu {

// Bytes of a stack. They are touched, and so paid for, only as deep as a kernel goes.
constexpr size_t STACK = 256 << 10;
constexpr size_t PAGE = 4096;

struct Context {
#ifdef EMU_UCONTEXT
  ucontext_t state;
#else
  void* top = nullptr;  // the saved stack pointer
#endif
  char* stack = nullptr;  // null: the process's own
  const void* bottom = nullptr;
  size_t size = 0;
  void* fake = nullptr;  // address sanitizer's
};

#ifndef EMU_UCONTEXT
// Saves the registers that a function must keep and the stack pointer to `*from`, and goes on where
// `to` was saved. Defined in server.cpp.
extern "C" void emu_switch(void** from, void* to);
#endif

inline void start_switch(Context* from, const Context& to, bool forever) {
#ifdef EMU_ASAN
  __sanitizer_start_switch_fiber(forever ? nullptr : &from->fake, to.bottom, to.size);
#else
  (void)from, (void)to, (void)forever;
#endif
}

// On the new stack: `self` is who goes on; `came` is told about the stack it was on, if not null.
inline void finish_switch(Context* self, Context* came) {
#ifdef EMU_ASAN
  const void* bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(self->fake, &bottom, &size);
  if (came) came->bottom = bottom, came->size = size;
#else
  (void)self, (void)came;
#endif
}

// Goes on in `to`; returns when somebody comes back to `from`, which does not happen if `forever`.
inline void switch_to(Context* from, Context* to, bool forever = false) {
  start_switch(from, *to, forever);
#ifdef EMU_UCONTEXT
  swapcontext(&from->state, &to->state);
#else
  emu_switch(&from->top, to->top);
#endif
  finish_switch(from, nullptr);
}

// Makes `context` begin with `entry`, which never returns.
inline void begin(Context* context, void (*entry)()) {
  if (!context->stack) {
    const size_t all = STACK + PAGE;
    void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0) {
      fprintf(stderr, "emu: there is no memory for the stack of a thread\n");
      _Exit(4);
    }
    context->stack = (char*)memory + PAGE;
    context->bottom = context->stack;
    context->size = STACK;
  }
  context->fake = nullptr;
#ifdef EMU_UCONTEXT
  getcontext(&context->state);
  context->state.uc_stack.ss_sp = context->stack;
  context->state.uc_stack.ss_size = STACK;
  context->state.uc_link = nullptr;
  makecontext(&context->state, entry, 0);
#else
  // As emu_switch leaves a stack: six registers, then where to go, then a return address that is
  // never used but keeps the stack aligned as a called function expects it.
  uint64_t* top = (uint64_t*)(context->stack + STACK);
  *--top = 0;
  *--top = (uint64_t)entry;
  for (int i = 0; i < 6; i++) *--top = 0;
  context->top = top;
#endif
}

}  // namespace emu
