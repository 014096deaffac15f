// A driver of CUDA without a GPU: what the program calls of libcuda, so that its side of the calls can
// be tested. Work waits on a queue until somebody waits for it, as late as a real GPU might do it.
// Memory is the host's and begins as garbage. Every kernel takes (u64* log, u32 number) and does
// log[0] += 1; log[1] = 31 * log[1] + number.
//
// FAKE_GPUS: the compute capabilities of the two GPUs, `75 90` if it is not set. FAKE_SHARED: bytes of
// shared memory that a block may have. FAKE_BYTES: how much memory there is. FAKE_NO_CAPTURE: recording fails. FAKE_NO_POOLS: there is no
// memory in the order of a stream. When the context is released with anything left over, the process
// ends.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
enum { OK, INVALID = 1, NO_MEMORY = 2, NO_CONTEXT = 201, NOT_FOUND = 500, CAPTURING = 900 };
typedef enum { COPY, ZERO, LAUNCH, PRODUCT, FREE } Kind;

// What cublaslt.c asks for.
typedef struct {
  const uint16_t *x, *weights;
  float *out;
  u64 rows, n, depth, x_stride, out_stride;
} Product;

typedef struct {
  Kind kind;
  void *to;
  const void *from;
  size_t bytes;
  uint32_t number;
  Product product;
} Work;

typedef struct {
  Work *all;
  size_t count, room;
} List;

// Before a piece of memory, which begins at a multiple of 256 as that of a GPU does.
typedef struct {
  u64 bytes, padding[31];
} Head;

static List queue, *recorded;
static size_t done;
static u64 total, used, pooled, kept_at_wait, alive;
static __thread void *current;
static char context;

static void die(const char *why) {
  fprintf(stderr, "the driver of the test: %s\n", why);
  abort();
}

static void push(List *list, Work work) {
  if (list->count == list->room) {
    list->room = list->room ? 2 * list->room : 64;
    list->all = realloc(list->all, list->room * sizeof(Work));
  }
  list->all[list->count++] = work;
}

static float widened(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float number;
  memcpy(&number, &bits, 4);
  return number;
}

static void multiply(Product p) {
  for (u64 r = 0; r < p.rows; r++) {
    for (u64 o = 0; o < p.n; o++) {
      float sum = 0;
      for (u64 i = 0; i < p.depth; i++) sum += widened(p.x[r * p.x_stride + i]) * widened(p.weights[o * p.depth + i]);
      p.out[r * p.out_stride + o] = sum;
    }
  }
}

static void run_until(size_t end) {
  for (; done < end; done++) {
    Work w = queue.all[done];
    switch (w.kind) {
      case COPY: memcpy(w.to, w.from, w.bytes); break;
      case ZERO: memset(w.to, 0, w.bytes); break;
      case LAUNCH: {
        u64 *log = w.to;
        log[0] += 1;
        log[1] = 31 * log[1] + w.number;
        break;
      }
      case PRODUCT: multiply(w.product); break;
      case FREE: {
        Head *head = (Head *)w.to - 1;
        pooled += head->bytes;
        free(head);
        break;
      }
    }
  }
}

#define NEEDS_CONTEXT if (current != &context) return NO_CONTEXT
#define NOT_CAPTURING NEEDS_CONTEXT; if (recorded) return CAPTURING

int cuInit(unsigned flags) {
  const char *bytes = getenv("FAKE_BYTES");
  total = bytes ? strtoull(bytes, 0, 10) : 1ull << 32;
  return flags ? INVALID : OK;
}
int cuDriverGetVersion(int *v) { *v = 12040; return OK; }
int cuDeviceGetCount(int *n) { *n = 2; return OK; }
int cuDeviceGet(int *d, int i) { *d = i; return i < 2 ? OK : INVALID; }
int cuDeviceGetName(char *name, int len, int d) { snprintf(name, len, "Fake %d", d); return OK; }
int cuDeviceTotalMem_v2(size_t *b, int d) { *b = total; return OK; }
static int shared(void) {
  const char *bytes = getenv("FAKE_SHARED");
  return bytes ? atoi(bytes) : 232448;
}
int cuDeviceGetAttribute(int *v, int attribute, int d) {
  const char *gpus = getenv("FAKE_GPUS");
  int capability = atoi((gpus ? gpus : "75 90") + 3 * d);
  switch (attribute) {
    case 16: *v = 114; return OK;             // multiprocessors
    case 75: *v = capability / 10; return OK;  // compute capability, major
    case 76: *v = capability % 10; return OK;  // minor
    case 97: *v = shared(); return OK;        // shared memory of a block
    case 115: *v = !getenv("FAKE_NO_POOLS"); return OK;  // memory pools
    default: return INVALID;
  }
}
int cuGetErrorString(int e, const char **s) { *s = e == NO_MEMORY ? "out of memory" : "some failure"; return OK; }

int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &context; return d == 1 ? OK : INVALID; }
int cuDevicePrimaryCtxRelease_v2(int d) {
  run_until(queue.count);
  if (alive) die("something was not given back");
  if (used != pooled) die("memory was not given back");
  used = pooled = 0;
  return OK;
}
int cuCtxGetCurrent(void **c) { *c = current; return OK; }
int cuCtxSetCurrent(void *c) { current = c; return OK; }

static int made(void **handle) {
  NOT_CAPTURING;
  alive++;
  *handle = calloc(1, 64);
  return OK;
}
static int unmade(void *handle) {
  NEEDS_CONTEXT;
  alive--;
  free(handle);
  return OK;
}

int cuStreamCreate(void **s, unsigned flags) { return flags == 1 ? made(s) : INVALID; }
int cuStreamDestroy_v2(void *s) { return unmade(s); }
int cuStreamSynchronize(void *s) { NOT_CAPTURING; run_until(queue.count); return OK; }
int cuEventCreate(void **e, unsigned flags) { return made(e); }
int cuEventDestroy_v2(void *e) { return unmade(e); }
int cuEventRecord(size_t *e, void *s) { NOT_CAPTURING; *e = queue.count; return OK; }
int cuEventSynchronize(size_t *e) { NOT_CAPTURING; run_until(*e); return OK; }

static int taken(u64 *address, size_t bytes) {
  NOT_CAPTURING;
  if (!bytes) return INVALID;
  if (used + bytes > total) return NO_MEMORY;
  used += bytes;
  Head *head = aligned_alloc(sizeof(Head), (2 * sizeof(Head) - 1 + bytes) / sizeof(Head) * sizeof(Head));
  head->bytes = bytes;
  memset(head + 1, 0xa5, bytes);
  *address = (u64)(head + 1);
  return OK;
}
int cuMemAlloc_v2(u64 *address, size_t bytes) { return taken(address, bytes); }
int cuMemFree_v2(u64 address) {
  NOT_CAPTURING;
  if (done != queue.count) die("memory is freed that may be in use");
  Head *head = (Head *)address - 1;
  used -= head->bytes;
  free(head);
  return OK;
}
int cuMemAllocAsync(u64 *address, size_t bytes, void *s) {
  return getenv("FAKE_NO_POOLS") ? INVALID : taken(address, bytes);
}
int cuMemFreeAsync(u64 address, void *s) {
  NOT_CAPTURING;
  push(&queue, (Work){FREE, (void *)address, 0, 0, 0});
  return OK;
}
int cuDeviceGetMemPool(void **pool, int d) { *pool = &pooled; return OK; }
int cuMemPoolSetAttribute(void *pool, int attribute, u64 *v) {
  if (attribute != 4) return INVALID;
  kept_at_wait = *v;
  return OK;
}
int cuMemPoolTrimTo(void *pool, size_t keep) {
  if (kept_at_wait != UINT64_MAX) die("the pool was to keep its memory");
  used -= pooled;
  pooled = 0;
  return OK;
}
int cuMemGetInfo_v2(size_t *left, size_t *all) { NEEDS_CONTEXT; *left = total - used; *all = total; return OK; }
int cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
  NOT_CAPTURING;
  alive++;
  *p = malloc(bytes);
  return OK;
}
int cuMemFreeHost(void *p) {
  if (done != queue.count) die("a buffer is freed that may be read");
  return unmade(p);
}

static int put(Work work) {
  NEEDS_CONTEXT;
  if (recorded && work.kind != LAUNCH && work.kind != PRODUCT) return CAPTURING;
  push(recorded ? recorded : &queue, work);
  return OK;
}
int cuMemsetD8Async(u64 to, unsigned char v, size_t bytes, void *s) {
  return v ? INVALID : put((Work){ZERO, (void *)to, 0, bytes, 0});
}
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, void *s) {
  return put((Work){COPY, (void *)to, from, bytes, 0});
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, void *s) {
  return put((Work){COPY, to, (const void *)from, bytes, 0});
}

int fakeProduct(const Product *product) { return put((Work){PRODUCT, .product = *product}); }

int cuModuleLoadData(char **module, const char *ptx) {
  int bad = made((void **)module);
  if (bad) return bad;
  free(*module);
  *module = strdup(ptx);
  return OK;
}
int cuModuleUnload(char *module) { return unmade(module); }
int cuModuleGetFunction(void **f, char *module, const char *name) {
  char entry[128];
  snprintf(entry, sizeof entry, ".visible .entry %s(", name);
  *f = strstr(module, entry);
  return *f ? OK : NOT_FOUND;
}
int cuFuncGetAttribute(int *v, int attribute, void *f) {
  *v = attribute == 0 ? 256 : 1024;  // threads of a block; bytes of shared memory
  return OK;
}
int cuFuncSetAttribute(void *f, int attribute, int v) { return attribute == 8 && v == shared() - 1024 ? OK : INVALID; }
int cuFuncGetParamInfo(void *f, size_t i, size_t *offset, size_t *bytes) { return i < 2 ? OK : INVALID; }

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *s, void **arguments, void **extra) {
  if (extra || by != 1 || bz != 1 || !gx || !gy || !gz) return INVALID;
  uint32_t number;
  memcpy(&number, arguments[1], 4);
  return put((Work){LAUNCH, *(void **)arguments[0], 0, 0, number});
}

int cuStreamBeginCapture_v2(void *s, int mode) {
  NOT_CAPTURING;
  if (mode != 1) die("recording keeps other threads from working");
  recorded = calloc(1, sizeof(List));
  return OK;
}
int cuStreamEndCapture(void *s, void **graph) {
  NEEDS_CONTEXT;
  if (!recorded) return INVALID;
  List *list = recorded;
  recorded = 0;
  if (getenv("FAKE_NO_CAPTURE")) return free(list->all), free(list), CAPTURING;
  alive++;
  *graph = list;
  return OK;
}
int cuGraphInstantiateWithFlags(void **executable, void *graph, u64 flags) {
  *executable = graph;
  return OK;
}
int cuGraphExecDestroy(void *executable) { return OK; }
int cuGraphDestroy(List *graph) { free(graph->all); return unmade(graph); }
int cuGraphLaunch(List *graph, void *s) {
  NOT_CAPTURING;
  for (size_t i = 0; i < graph->count; i++) push(&queue, graph->all[i]);
  return OK;
}
