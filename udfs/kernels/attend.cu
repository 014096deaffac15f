// Attention on tensor cores, for heads of up to 64 and of up to 128 numbers (a multiple of 8):
//   out[r] = sum over keys j of p(j) v(j) / sum over j of p(j),
//   p(j) = 2^(log2(e) (scale q(r) k(j) + bias(j - place(r))) - top).
//
// The bits of a row. The keys of a segment are cut into chunks of 64, counted from its first key,
// wherever they lie. A chunk is computed on its own from zero: scores in f32, its own maximum, p
// rounded to bf16, the sum of p and the sum of p v in f32, both by `mma` over four times 16 keys in
// order. Then it is merged into the running maximum, sum and result, chunk after chunk. So the bits
// depend on the row's q, its keys and values in their order, and nothing else. `attend_rows` and
// `attend_keys` do that with the same functions; they differ in which warp does which part. A chunk
// of which a row reads nothing leaves the row alone; keys that it does not read weigh exactly 0.
// (0 times a value that is infinite or not a number spoils rows that read other keys of its chunk.)
//
// Both have blocks of 128 threads, all of which bring the next chunk to shared memory while the
// present one is computed with. Dynamic shared memory: sizeof(ChunkShared<DIM>) bytes, and for
// attend_keys sizeof(TileShared) more.
//
// A tile is some of the (row, head) pairs that read the same keys: of a segment of `rows` rows and
// one head of keys, number i of rows * group is row i / group and head i % group of the group.
//
// Arguments of all: q [rows][q_width] and out [rows][out_width], halves; segments [segments][4]: first
// row, rows, first key in `slots`, keys, those with few rows first, and zeros where there is no
// segment; slots: one per key; keys, values: where the layer of the cache begins; bias [heads]
// [2 reach + 1] or null.

#define LOG2E 1.44269504f
// Keys of a chunk.
#define CHUNK 64
// Most (row, head) pairs of a segment and head of keys for which all warps share one tile.
#define SHARED_TILE 16

// What a kernel is told.
struct Attending {
  const u16* q;
  u16* out;
  const Four* segments;
  const u32* slots;
  const u16 *keys, *values;
  const float* bias;
  u32 q_width, out_width, kv_heads, group, head_dim, reach, causal;
  // Times log2(e).
  float scale;
};

// What a block works on: `rows` rows of one head of keys.
struct AttendSegment {
  u32 first_row, rows, keys, kv_head;
  // From the number of a row to its place in the text. Only causal and biased rows have one: they are
  // the last of the keys.
  u32 shift;
  const u32* slots;
};

// A row and head.
struct AttendQuery {
  u32 row, head;
  // It reads the first so many keys; 0 if there is no such row.
  u32 reads;
};

// The keys and values of two chunks, and where in the layer of the cache the keys of two are: the
// number of a row of head_dim numbers. The rest of a row keeps the rows of eight keys in different
// banks.
template <int DIM>
struct ChunkShared {
  u16 numbers[2][2][CHUNK][DIM + 8];
  u32 rows[2][CHUNK];
};

// What the warps of `attend_keys` tell each other: maxima and weights of the tile.
struct TileShared {
  float tops[SHARED_TILE][4];
  u16 weights[SHARED_TILE][CHUNK + 8];
};

__device__ __forceinline__ AttendSegment attend_segment(const Attending& a, u32 id, u32 kv_head) {
  Four s = a.segments[id];
  return {s.x, s.y, s.w, kv_head, s.w - s.y - s.x, a.slots + s.z};
}

__device__ __forceinline__ AttendQuery attend_query(const Attending& a, const AttendSegment& s,
                                                    u32 index) {
  u32 row = index / a.group, head = s.kv_head * a.group + index % a.group;
  if (row >= s.rows) return {0, 0, 0};
  row += s.first_row;
  return {row, head, a.causal ? row + s.shift + 1 : s.keys};
}

__device__ __forceinline__ u32 attend_row(const Attending& a, const AttendSegment& s, u32 key) {
  if (key >= s.keys) return NO_SLOT;
  return (u32)cache_place(s.slots[key], s.kv_head, a.kv_heads, 1);
}

// Numbers of a head in shared memory: rounded up to whole column groups, with zeros.
__device__ __forceinline__ u32 attend_columns(u32 head_dim) { return (head_dim + 31) / 32 * 32; }

// What a thread brings of each chunk: eight neighbouring numbers of every 1024 / DIM-th key.
template <int DIM>
struct AttendFetch {
  const u16 *keys, *values;
  // Of its first key of the first stage.
  SharedPlace to, row;
  u32 head_dim;
  // Whether its columns are in a head, and whether somebody reads them.
  bool there, read;

  __device__ __forceinline__ AttendFetch(ChunkShared<DIM>& shared, const Attending& a, u32 columns) {
    u32 key = threadIdx.x / (DIM / 8), column = threadIdx.x % (DIM / 8) * 8;
    keys = a.keys + column, values = a.values + column;
    SharedPlace begin = shared_place(&shared);
    to = begin + (key * (DIM + 8) + column) * 2;
    row = begin + sizeof(shared.numbers) + key * 4;
    head_dim = a.head_dim;
    there = column < a.head_dim, read = column < columns;
  }

  // Begins to bring a chunk to its stage.
  __device__ __forceinline__ void chunk(u32 chunk) const {
    const u32 PART = CHUNK * (DIM + 8) * 2, STEP = 1024 / DIM;
    u32 stage = chunk % 2;
    if (!read) return;
#pragma unroll
    for (u32 key = 0; key < CHUNK; key += STEP) {
      u32 from = read_word(row + stage * CHUNK * 4 + key * 4);
      bool valid = there && from != NO_SLOT;
      u64 place = (u64)(valid ? from : 0) * head_dim;
      SharedPlace at = to + stage * 2 * PART + key * (DIM + 8) * 2;
      copy_async(at, keys + place, valid);
      copy_async(at + PART, values + place, valid);
    }
  }
};

// The q of ROWS pairs from `first` on, by way of the second stage's place for keys; then the part of
// the calling warp, 16 pairs from `own` on. Waits for the first chunk, too, which the caller has
// begun to fetch.
template <int DIM, int ROWS>
__device__ __forceinline__ void attend_load_q(ChunkShared<DIM>& shared, const Attending& a,
                                              const AttendSegment& s, u32 first, u32 own,
                                              u32 (*q)[4]) {
  u32 columns = attend_columns(a.head_dim), lane = threadIdx.x % 32;
#pragma unroll
  for (u32 i = threadIdx.x; i < ROWS * DIM / 8; i += 128) {
    u32 row = i / (DIM / 8), column = i % (DIM / 8) * 8;
    if (column >= columns) continue;
    AttendQuery query = attend_query(a, s, first + row);
    bool valid = query.reads && column < a.head_dim;
    u64 place = (u64)query.row * a.q_width + query.head * a.head_dim + column;
    copy_async(&shared.numbers[1][0][row][column], a.q + (valid ? place : 0), valid);
  }
  copies_commit();
  copies_wait<0>();
  __syncthreads();
#pragma unroll
  for (u32 step = 0; step < DIM / 16; step++) {
    if (step * 16 >= a.head_dim) continue;
    load_matrices(q[step], &shared.numbers[1][0][own + lane % 16][step * 16 + lane / 16 * 8]);
  }
}

// Products of 16 pairs with 16 PAIRS keys, from d = 0 on in steps of 16.
template <int DIM, int PAIRS>
__device__ __forceinline__ void attend_products(float (*products)[4], const u32 (*q)[4],
                                                const u16 (*keys)[DIM + 8], u32 head_dim) {
  u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int t = 0; t < 2 * PAIRS; t++) {
    for (int i = 0; i < 4; i++) products[t][i] = 0.f;
  }
#pragma unroll
  for (u32 step = 0; step < DIM / 16; step++) {
    if (step * 16 >= head_dim) continue;
#pragma unroll
    for (u32 pair = 0; pair < PAIRS; pair++) {
      u32 k[4];
      load_matrices(k, &keys[pair * 16 + lane / 16 * 8 + lane % 8][step * 16 + lane / 8 % 2 * 8]);
      mma(products[2 * pair], q[step], k);
      mma(products[2 * pair + 1], q[step], k + 2);
    }
  }
}

__device__ __forceinline__ float attend_score(const Attending& a, const AttendSegment& s,
                                              const AttendQuery& query, float product, u32 key) {
  if (key >= query.reads) return -INFINITE;
  float score = product * a.scale;
  if (!a.bias) return score;
  int apart = (int)(key - (query.row + s.shift)), reach = (int)a.reach;
  u32 far = apart < -reach ? 0 : apart > reach ? 2 * a.reach : (u32)(apart + reach);
  return fmaf(a.bias[(u64)query.head * (2 * a.reach + 1) + far], LOG2E, score);
}

// Gives the largest of each row to the four lanes that hold it.
__device__ __forceinline__ void attend_tops(float* tops) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    tops[i] = fmaxf(tops[i], __shfl_xor_sync(FULL, tops[i], 1));
    tops[i] = fmaxf(tops[i], __shfl_xor_sync(FULL, tops[i], 2));
  }
}

// Makes scores of the products of 8 HALVES rows with 16 PAIRS keys from `first` on, and gives the
// largest of each row to the four lanes that hold it.
template <int PAIRS, int HALVES>
__device__ __forceinline__ void attend_scores(float (*scores)[4], const Attending& a,
                                              const AttendSegment& s, const AttendQuery* query,
                                              u32 first, float* tops) {
  tops[0] = tops[1] = -INFINITE;
#pragma unroll
  for (int t = 0; t < 2 * PAIRS; t++) {
#pragma unroll
    for (int i = 0; i < 2 * HALVES; i++) {
      u32 key = first + t * 8 + threadIdx.x % 4 * 2 + i % 2;
      scores[t][i] = attend_score(a, s, query[i / 2], scores[t][i], key);
      tops[i / 2] = fmaxf(tops[i / 2], scores[t][i]);
    }
  }
  attend_tops(tops);
}

// What is subtracted from scores of which `top` is the largest: never infinite.
__device__ __forceinline__ float attend_base(float top) { return top == -INFINITE ? 0.f : top; }

// The weights of two neighbouring keys.
__device__ __forceinline__ u32 attend_weights(float x, float y, float top) {
  float base = attend_base(top);
  return two_halves(power_of_two(x - base), power_of_two(y - base));
}

// The result of a row so far.
struct AttendRunning {
  float top, sum;
};

// How a chunk is merged into it: result * before + chunk * now, if the row reads the chunk.
struct AttendMerge {
  float before, now;
  bool reads;
};

__device__ __forceinline__ AttendMerge attend_step(AttendRunning& running, float top, float sum,
                                                   bool reads) {
  if (!reads) return {1.f, 0.f, false};
  float largest = fmaxf(running.top, top), base = attend_base(largest);
  float before = power_of_two(running.top - base);
  float now = power_of_two(attend_base(top) - base);
  running.top = largest;
  running.sum = fmaf(sum, now, running.sum * before);
  return {before, now, true};
}

// Merges a chunk, whose weights are `p`, into 8 HALVES rows of 8 TILES columns of the values, which
// begin for the calling lane at `values`, in rows of PITCH bytes.
template <int HALVES, int TILES, int PITCH>
__device__ __forceinline__ void attend_merge(float (*out)[4], const u32 (*p)[4], SharedPlace values,
                                             const AttendMerge* merges) {
  float chunk[TILES][4] = {};
#pragma unroll
  for (u32 step = 0; step < CHUNK / 16; step++) {
#pragma unroll
    for (u32 t = 0; t < TILES; t += 2) {
      u32 v[4];
      load_matrices_transposed(v, values + step * 16 * PITCH + t * 16);
      mma(chunk[t], p[step], v);
      mma(chunk[t + 1], p[step], v + 2);
    }
  }
#pragma unroll
  for (int t = 0; t < TILES; t++) {
#pragma unroll
    for (int i = 0; i < 2 * HALVES; i++) {
      const AttendMerge& m = merges[i / 2];
      if (m.reads) out[t][i] = fmaf(chunk[t][i], m.now, out[t][i] * m.before);
    }
  }
}

// The running maxima and sums of 8 HALVES rows take up a chunk with weights `p`.
template <int HALVES>
__device__ __forceinline__ void attend_advance(AttendRunning* running, AttendMerge* merges,
                                               const u32 (*p)[4], const float* tops,
                                               const AttendQuery* query, u32 first) {
  const u32 ones[2] = {0x3f803f80u, 0x3f803f80u};
  float sums[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
  for (int step = 0; step < CHUNK / 16; step++) mma(sums, p[step], ones);
#pragma unroll
  for (int i = 0; i < HALVES; i++) {
    merges[i] = attend_step(running[i], tops[i], sums[2 * i], first < query[i].reads);
  }
}

// Writes 8 TILES columns from `first` on of two rows.
template <int TILES>
__device__ __forceinline__ void attend_write(const Attending& a, const AttendQuery* query,
                                             const AttendRunning* running, float (*out)[4],
                                             u32 first) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (!query[i].reads) continue;
    float inverse = 1.f / running[i].sum;
    u16* row = a.out + (u64)query[i].row * a.out_width + query[i].head * a.head_dim;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      u32 column = first + t * 8 + threadIdx.x % 4 * 2;
      if (column >= a.head_dim) continue;
      *(u32*)(row + column) = two_halves(out[t][2 * i] * inverse, out[t][2 * i + 1] * inverse);
    }
  }
}

// Many rows of a segment: a block has 64 pairs, a warp 16 of them with all keys and columns.
//
// units [units][2]: segment, or NO_SEGMENT, and the first of 64 of its rows. Grid
// units * kv_heads * group: the pairs of a unit are `group` tiles. Segments of at most SHARED_TILE
// pairs are left alone.
// A tile moves q and out once and 4 head_dim bytes per key, which other tiles of the segment find in
// the second-level cache; it does 4 * 64 head_dim operations per key.
template <int DIM>
__device__ __forceinline__ void attend_many(const Attending& a, const u32* units) {
  DYNAMIC_SHARED(bytes);
  ChunkShared<DIM>& shared = *(ChunkShared<DIM>*)bytes;
  u32 part = blockIdx.x % a.group, kv_head = blockIdx.x / a.group % a.kv_heads;
  const u32* unit = units + 2 * (u64)(blockIdx.x / a.group / a.kv_heads);
  if (unit[0] == NO_SEGMENT) return;
  AttendSegment s = attend_segment(a, unit[0], kv_head);
  u32 pairs = s.rows * a.group, begin = unit[1] * a.group + part * 64;
  if (pairs <= SHARED_TILE || begin >= pairs) return;

  u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32, own = begin + warp * 16;
  AttendQuery query[2] = {attend_query(a, s, own + lane / 4), attend_query(a, s, own + lane / 4 + 8)};
  // Later rows read at least as much as earlier ones.
  u32 all_read = attend_query(a, s, begin + 64 < pairs ? begin + 63 : pairs - 1).reads;
  u32 warp_reads = own < pairs ? attend_query(a, s, own + 16 < pairs ? own + 15 : pairs - 1).reads : 0;

  AttendFetch<DIM> fetch(shared, a, attend_columns(a.head_dim));
  if (thread < CHUNK) {
    shared.rows[0][thread] = attend_row(a, s, thread);
    shared.rows[1][thread] = attend_row(a, s, CHUNK + thread);
  }
  __syncthreads();
  fetch.chunk(0);
  u32 q[DIM / 16][4];
  attend_load_q<DIM, 64>(shared, a, s, begin, warp * 16, q);

  const u32 PITCH = (DIM + 8) * 2, PART = CHUNK * PITCH;
  SharedPlace values = shared_place(bytes) + PART + lane % 16 * PITCH + lane / 16 * 16;
  float out[DIM / 8][4];
  for (int t = 0; t < DIM / 8; t++) {
    for (int i = 0; i < 4; i++) out[t][i] = 0.f;
  }
  AttendRunning running[2] = {{-INFINITE, 0.f}, {-INFINITE, 0.f}};
  for (u32 chunk = 0; chunk * CHUNK < all_read; chunk++) {
    u32 first = chunk * CHUNK, stage = chunk % 2, row = NO_SLOT;
    copies_wait<0>();
    // The chunk is there, and nobody needs the other stage any more.
    __syncthreads();
    if (thread < CHUNK) row = attend_row(a, s, first + 2 * CHUNK + thread);
    if (first + CHUNK < all_read) fetch.chunk(chunk + 1);
    copies_commit();
    if (first < warp_reads) {
      float scores[8][4], tops[2];
      attend_products<DIM, 4>(scores, q, shared.numbers[stage][0], a.head_dim);
      attend_scores<4, 2>(scores, a, s, query, first, tops);
      u32 p[4][4];
#pragma unroll
      for (int i = 0; i < 16; i++) {
        const float* two = &scores[i / 2][i % 2 * 2];
        p[i / 4][i % 4] = attend_weights(two[0], two[1], tops[i % 2]);
      }
      AttendMerge merges[2];
      attend_advance<2>(running, merges, p, tops, query, first);
#pragma unroll
      for (u32 column = 0; column < DIM; column += 32) {
        if (column >= a.head_dim) continue;
        SharedPlace at = values + stage * 2 * PART + column * 2;
        attend_merge<2, 4, PITCH>(out + column / 8, p, at, merges);
      }
    }
    if (thread < CHUNK) shared.rows[stage][thread] = row;
  }
  attend_write<DIM / 8>(a, query, running, out, 0);
}

// Few rows of a segment, as in a step of generation: a block has one tile of up to 16 pairs, of which
// lanes have 8 HALVES rows. Of a chunk, each warp computes the scores of 16 keys; then they tell each
// other maxima and weights, and each sums up a quarter of the columns. Columns beyond head_dim are
// zeros, as nothing but instructions is short here.
//
// A tile moves 4 head_dim bytes per key, once, and does 4 * 16 head_dim operations with each, whatever
// the number of pairs: it waits for memory. A block has up to 16 (DIM 64) or 32 KiB (DIM 128) under
// way, a multiprocessor has five or three blocks.
template <int DIM, int HALVES>
__device__ __forceinline__ void attend_tile(const Attending& a, const AttendSegment& s) {
  DYNAMIC_SHARED(bytes);
  ChunkShared<DIM>& shared = *(ChunkShared<DIM>*)bytes;
  const u32 PITCH = (DIM + 8) * 2, PART = CHUNK * PITCH, COLUMNS = DIM / 4;
  u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  AttendQuery query[2];
#pragma unroll
  for (int i = 0; i < 2; i++) query[i] = attend_query(a, s, lane / 4 + 8 * i);
  u32 all_read = attend_query(a, s, s.rows * a.group - 1).reads;
  // Chunks that all rows read as a whole.
  u32 least_read = a.bias ? 0 : attend_query(a, s, 0).reads;

  AttendFetch<DIM> fetch(shared, a, DIM);
  if (thread < CHUNK) {
    shared.rows[0][thread] = attend_row(a, s, thread);
    shared.rows[1][thread] = attend_row(a, s, CHUNK + thread);
  }
  __syncthreads();
  fetch.chunk(0);
  u32 q[DIM / 16][4] = {};
  attend_load_q<DIM, SHARED_TILE>(shared, a, s, 0, 0, q);

  SharedPlace begin = shared_place(bytes);
  SharedPlace keys = begin + (warp * 16 + lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 16;
  SharedPlace values = begin + PART + lane % 16 * PITCH + (warp * COLUMNS + lane / 16 * 8) * 2;
  SharedPlace tops_at = begin + sizeof(shared), row_at = begin + sizeof(shared.numbers) + thread * 4;
  SharedPlace weights_at = tops_at + sizeof(TileShared::tops);
  const u32 WEIGHTS = sizeof(TileShared::weights) / SHARED_TILE;
  float out[COLUMNS / 8][4] = {};
  AttendRunning running[2] = {{-INFINITE, 0.f}, {-INFINITE, 0.f}};
  for (u32 chunk = 0; chunk * CHUNK < all_read; chunk++) {
    u32 first = chunk * CHUNK, stage = chunk % 2, row = NO_SLOT;
    copies_wait<0>();
    __syncthreads();
    if (thread < CHUNK) row = attend_row(a, s, first + 2 * CHUNK + thread);
    if (first + CHUNK < all_read) fetch.chunk(chunk + 1);
    copies_commit();

    float scores[2][4] = {}, tops[2] = {-INFINITE, -INFINITE};
#pragma unroll
    for (u32 step = 0; step < DIM / 16; step++) {
      u32 k[4];
      load_matrices(k, keys + stage * 2 * PART + step * 32);
      mma(scores[0], q[step], k);
      mma(scores[1], q[step], k + 2);
    }
    if (first + CHUNK <= least_read) {
#pragma unroll
      for (int at = 0; at < 4 * HALVES; at++) {
        float& score = scores[at / 2 % 2][at / 4 * 2 + at % 2];
        score *= a.scale;
        tops[at / 4] = fmaxf(tops[at / 4], score);
      }
      attend_tops(tops);
    } else {
      attend_scores<1, HALVES>(scores, a, s, query, first + warp * 16, tops);
    }
#pragma unroll
    for (int i = 0; i < HALVES; i++) {
      SharedPlace at = tops_at + (lane / 4 + 8 * i) * 16;
      if (lane % 4 == 0) write_word(at + warp * 4, __float_as_uint(tops[i]));
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < HALVES; i++) {
      Four all = read_four(tops_at + (lane / 4 + 8 * i) * 16);
      tops[i] = fmaxf(fmaxf(__uint_as_float(all.x), __uint_as_float(all.y)),
                      fmaxf(__uint_as_float(all.z), __uint_as_float(all.w)));
#pragma unroll
      for (int t = 0; t < 2; t++) {
        u32 two = attend_weights(scores[t][2 * i], scores[t][2 * i + 1], tops[i]);
        u32 key = warp * 16 + t * 8 + lane % 4 * 2;
        write_word(weights_at + (lane / 4 + 8 * i) * WEIGHTS + key * 2, two);
      }
    }
    __syncthreads();
    u32 p[4][4] = {};
    if constexpr (HALVES == 2) {
#pragma unroll
      for (u32 step = 0; step < 4; step++) {
        load_matrices(p[step], weights_at + lane % 16 * WEIGHTS + step * 32 + lane / 16 * 16);
      }
    } else {
#pragma unroll
      for (u32 step = 0; step < 4; step += 2) {
        u32 two[4];
        load_matrices(two, weights_at + lane % 8 * WEIGHTS + step * 32 + lane / 8 * 16);
        p[step][0] = two[0], p[step][2] = two[1];
        p[step + 1][0] = two[2], p[step + 1][2] = two[3];
      }
    }
    AttendMerge merges[2];
    attend_advance<HALVES>(running, merges, p, tops, query, first);
    if (warp * COLUMNS < a.head_dim) {
      attend_merge<HALVES, COLUMNS / 8, PITCH>(out, p, values + stage * 2 * PART, merges);
    }
    if (thread < CHUNK) write_word(row_at + stage * CHUNK * 4, row);
  }
  attend_write<COLUMNS / 8>(a, query, running, out, warp * COLUMNS);
}

// Grid segments * kv_heads. Segments of more than SHARED_TILE pairs are left alone.
template <int DIM>
__device__ __forceinline__ void attend_few(const Attending& a) {
  AttendSegment s = attend_segment(a, blockIdx.x / a.kv_heads, blockIdx.x % a.kv_heads);
  u32 pairs = s.rows * a.group;
  if (pairs == 0 || pairs > SHARED_TILE) return;
  if (pairs <= SHARED_TILE / 2) {
    attend_tile<DIM, 1>(a, s);
  } else {
    attend_tile<DIM, 2>(a, s);
  }
}

#define ATTEND_ARGUMENTS                                                                          \
  const u16 *q, u32 q_width, u16 *out, u32 out_width, const Four *segments, const u32 *slots,     \
      const u16 *keys, const u16 *values, u32 kv_heads, u32 group, u32 head_dim, float scale,     \
      u32 causal, const float *bias, u32 reach
#define ATTENDING                                                                                 \
  { q, out, segments, slots, keys, values, bias, q_width, out_width, kv_heads, group, head_dim,   \
    reach, causal, scale * LOG2E }

extern "C" __global__ void __launch_bounds__(128, 3)
    attend_rows_64(ATTEND_ARGUMENTS, const u32* units) {
  attend_many<64>(ATTENDING, units);
}

extern "C" __global__ void __launch_bounds__(128, 2)
    attend_rows_128(ATTEND_ARGUMENTS, const u32* units) {
  attend_many<128>(ATTENDING, units);
}

extern "C" __global__ void __launch_bounds__(128, 5) attend_keys_64(ATTEND_ARGUMENTS) {
  attend_few<64>(ATTENDING);
}

extern "C" __global__ void __launch_bounds__(128, 3) attend_keys_128(ATTEND_ARGUMENTS) {
  attend_few<128>(ATTENDING);
}

#ifdef EMU
EMU_REGISTER(attend_rows_64)
EMU_REGISTER(attend_rows_128)
EMU_REGISTER(attend_keys_64)
EMU_REGISTER(attend_keys_128)
#endif
