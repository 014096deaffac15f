// A cuBLASLt without a GPU, for the driver in cuda.c: what the program calls of it, so that its side of
// the calls can be tested. It checks that layouts fit each other, hands out algorithms of which only
// some may be taken, and puts the products on the driver's queue, which computes them.
//
// FAKE_NO_ALGORITHM: none sums outputs as a whole. FAKE_PICKY: no algorithm makes products of 2 rows.
// When the handle is destroyed with anything left over, the process ends.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
enum { OK, NOT_INITIALIZED = 1, INVALID = 7, NOT_SUPPORTED = 15 };
enum { F32 = 0, BF16 = 14 };

typedef struct { int type; u64 rows, columns; int64_t stride; } Layout;
typedef struct { int32_t sums, scale, transposed; } Description;
typedef struct { u64 room; uint32_t reductions, align[4]; } Preference;
typedef struct { uint32_t parts, scheme, number, chosen; u64 n, depth, unused[4]; } Algorithm;
typedef struct { Algorithm algorithm; size_t room; int state; float waves; int reserved[4]; } Found;

// Of the driver: puts out[r, o] = sum_i x[r, i] w[o, i] on the queue, or says that it cannot.
typedef struct { const uint16_t *x, *weights; float *out; u64 rows, n, depth, x_stride, out_stride; } Product;
int fakeProduct(const Product *product);

static int alive;
static char handle;

static void die(const char *why) {
  fprintf(stderr, "the cuBLASLt of the test: %s\n", why);
  abort();
}
static void *made(size_t bytes) { alive++; return calloc(1, bytes); }
static int unmade(void *p) { alive--; free(p); return OK; }

size_t cublasLtGetVersion(void) { return 130000; }
int cublasLtCreate(void **h) { *h = &handle; alive++; return OK; }
int cublasLtDestroy(void *h) {
  if (--alive) die("something was not given back");
  return h == &handle ? OK : INVALID;
}
int cublasLtMatmulDescCreate(Description **d, int sums, int scale) {
  *d = made(sizeof(Description));
  (*d)->sums = sums, (*d)->scale = scale;
  return OK;
}
int cublasLtMatmulDescSetAttribute(Description *d, int attribute, const void *v, size_t bytes) {
  if (attribute != 3 || bytes != 4) return INVALID;  // the first matrix is transposed
  memcpy(&d->transposed, v, 4);
  return OK;
}
int cublasLtMatmulDescDestroy(Description *d) { return unmade(d); }
int cublasLtMatmulPreferenceCreate(Preference **p) {
  *p = made(sizeof(Preference));
  (*p)->reductions = 7;
  return OK;
}
int cublasLtMatmulPreferenceSetAttribute(Preference *p, int attribute, const void *v, size_t bytes) {
  switch (attribute) {
    case 1: if (bytes != 8) return INVALID; memcpy(&p->room, v, 8); return OK;
    case 3: if (bytes != 4) return INVALID; memcpy(&p->reductions, v, 4); return OK;
    case 5: case 6: case 7: case 8:
      if (bytes != 4) return INVALID;
      memcpy(&p->align[attribute - 5], v, 4);
      return OK;
    default: return INVALID;
  }
}
int cublasLtMatmulPreferenceDestroy(Preference *p) { return unmade(p); }
int cublasLtMatrixLayoutCreate(Layout **l, int type, u64 rows, u64 columns, int64_t stride) {
  if (stride < (int64_t)rows) return INVALID;
  *l = made(sizeof(Layout));
  **l = (Layout){type, rows, columns, stride};
  return OK;
}
int cublasLtMatrixLayoutDestroy(Layout *l) { return unmade(l); }

// Columns lie one after the other: weights [depth, n] are transposed, x is [depth, m], out [n, m].
static int fit(const Description *d, const Layout *w, const Layout *x, const Layout *c, const Layout *out) {
  return d->sums == 68 && d->scale == F32 && d->transposed == 1 && w->type == BF16 && x->type == BF16 &&
         out->type == F32 && w->rows == x->rows && w->columns == out->rows && x->columns == out->columns &&
         c == out;
}

int cublasLtMatmulAlgoGetHeuristic(void *h, Description *d, Layout *w, Layout *x, Layout *c, Layout *out,
                                   Preference *p, int most, Found *found, int *count) {
  if (h != &handle) return NOT_INITIALIZED;
  if (!fit(d, w, x, c, out) || most < 3 || p->reductions || !p->room) return INVALID;
  for (int i = 0; i < 4; i++) {
    if (p->align[i] != 64) return INVALID;
  }
  static uint32_t chosen;
  chosen++;
  // The first fails, the second cuts sums, the third is the one to take; FAKE_NO_ALGORITHM cuts it too.
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t parts = i == 1 || (i == 2 && getenv("FAKE_NO_ALGORITHM")) ? 4 : 1;
    found[i] = (Found){{parts, parts > 1, i, chosen, out->rows, x->rows}, 1 << 20, i ? OK : NOT_SUPPORTED};
  }
  *count = 3;
  return OK;
}
int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm *a, int attribute, void *v, size_t bytes, size_t *written) {
  if (bytes != 4 || (attribute != 2 && attribute != 3)) return INVALID;
  memcpy(v, attribute == 2 ? &a->parts : &a->scheme, 4);
  *written = 4;
  return OK;
}
static int suits(const Algorithm *a, const Layout *w, const Layout *out) {
  if (a->number != 2 || a->n != out->rows || a->depth != w->rows) return 0;
  return !(getenv("FAKE_PICKY") && out->columns == 2);
}
int cublasLtMatmulAlgoCheck(void *h, Description *d, Layout *w, Layout *x, Layout *c, Layout *out,
                            const Algorithm *a, Found *found) {
  if (h != &handle) return NOT_INITIALIZED;
  if (!fit(d, w, x, c, out)) return INVALID;
  *found = (Found){*a, 1 << 20, suits(a, w, out) ? OK : NOT_SUPPORTED};
  return OK;
}

int cublasLtMatmul(void *h, Description *d, const float *one, const void *weights, Layout *w, const void *inputs,
                   Layout *x, const float *zero, const void *before, Layout *c, void *result, Layout *out,
                   const Algorithm *a, void *workspace, size_t room, void *stream) {
  if (h != &handle) return NOT_INITIALIZED;
  if (!fit(d, w, x, c, out) || *one != 1 || *zero != 0 || before != result) return INVALID;
  if (!suits(a, w, out) || !workspace || room < 1 << 20 || !stream) return NOT_SUPPORTED;
  memset(workspace, 0xff, 1 << 20);
  Product product = {inputs, weights, result, x->columns, out->rows, w->rows, x->stride, out->stride};
  return fakeProduct(&product);
}
