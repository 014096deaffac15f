// From logits to tokens. Of each row the host is told the log-sum-exp of the logits, the likeliest
// token, and the tokens that it asked for: given ones (`pick_stats`), the likeliest few (`pick_top`)
// or a sample (`pick_sample`). The log-probability is the difference, which the host takes in f64.
//
// All kernels but `pick_ids`: a block of 512 threads for each row, and the same arguments.
//   logits: [gridDim.x][stride] f32, of which the first `vocabulary` count; banned ones become -inf.
//   rows: [gridDim.x], what is asked. tokens: the lists that rows point to.
//   results: two cells for each row, its log-sum-exp (f64) and its likeliest token; then the cells
//   that rows point to. A token's cell is its id, and above it the bits of its logit.
//
// Nothing depends on the order of threads: what many threads add to one place are integers, and f64
// sums are added first within each thread, then over lanes, then over warps. Tokens have one order:
// the likelier first, of equally likely ones the one with the smaller id (`pick_key`).

enum { PICK_THREADS = 512, PICK_WARPS = PICK_THREADS / 32 };
// What is asked, as the host numbers it.
enum { PICK_NOTHING = 0, PICK_STATS = 1, PICK_TOP = 2, PICK_SAMPLE = 3 };

#define PICK_NO_TOKEN 0xffffffffu

// What is asked of a row, as the host writes it.
struct alignas(16) PickRow {
  u32 kind;
  // Tokens that may not be chosen, and tokens whose logits are wanted.
  u32 first_banned, banned, first_wanted, wanted;
  // Where its results begin.
  u32 first_result;
  // Of PICK_TOP: how many are wanted. Of PICK_SAMPLE: the likeliest so many, 0 is all.
  u32 count;
  // Of PICK_SAMPLE: what divides the logits, the share that is kept (1 is all), the noise.
  float temperature, share;
  u32 noise_low, noise_high;
  // Where the mask of tokens that may be chosen begins, plus one: a bit for each token; 0 is no mask.
  u32 mask;
};

// ---- Tokens in order.

struct alignas(16) PickFour {
  float at[4];
};

// Larger for larger numbers. Zeros of either sign are equal.
__device__ __forceinline__ u32 pick_ordered(float x) {
  u32 bits = __float_as_uint(x + 0.f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Larger for tokens that come first. No key is 0.
__device__ __forceinline__ u64 pick_key(float logit, u32 id) {
  return (u64)pick_ordered(logit) << 32 | (u32)~id;
}
__device__ __forceinline__ u32 pick_id(u64 key) { return ~(u32)key; }
__device__ __forceinline__ float pick_logit(u64 key) {
  u32 bits = (u32)(key >> 32);
  return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}
// Keys of logits above -inf are not below it.
#define PICK_LEAST 0x0080000000000000ull

__device__ __forceinline__ u64 pick_cell(u32 id, float logit) {
  return (u64)__float_as_uint(logit) << 32 | id;
}

// Four logits, -inf beyond the vocabulary. Rows have room for a multiple of 32.
__device__ __forceinline__ PickFour pick_four(const float* logits, u32 vocabulary, u32 i) {
  PickFour four = {{-INFINITE, -INFINITE, -INFINITE, -INFINITE}};
  if (i >= vocabulary) return four;
  PickFour read = *(const PickFour*)(logits + i);
#pragma unroll
  for (u32 j = 0; j < 4; j++) four.at[j] = i + j < vocabulary ? read.at[j] : -INFINITE;
  return four;
}

// Calls `act(four, i)` with the logits i to i + 3 for each i that is this thread's, in order. Four
// loads are under way at a time.
template <class Act>
__device__ __forceinline__ void pick_each_four(const float* logits, u32 vocabulary, Act act) {
  for (u32 first = 4 * threadIdx.x; first < vocabulary; first += 16 * PICK_THREADS) {
    PickFour fours[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
      fours[k] = pick_four(logits, vocabulary, first + 4 * PICK_THREADS * k);
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++) act(fours[k], first + 4 * PICK_THREADS * k);
  }
}

// ---- Over the block. All threads get the result; `scratch` is free again after the next barrier.

__device__ __forceinline__ u64 pick_block_max(u64 own, u64* scratch) {
  for (int o = 16; o; o >>= 1) {
    u64 other = __shfl_xor_sync(FULL, own, o);
    own = other > own ? other : own;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = own;
  __syncthreads();
  for (int w = 0; w < PICK_WARPS; w++) own = scratch[w] > own ? scratch[w] : own;
  return own;
}

__device__ __forceinline__ double pick_block_sum(double own, double* scratch) {
  for (int o = 16; o; o >>= 1) own += __shfl_xor_sync(FULL, own, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = own;
  __syncthreads();
  double all = 0.;
  for (int w = 0; w < PICK_WARPS; w++) all += scratch[w];
  return all;
}

// What the threads before this one have.
__device__ __forceinline__ u64 pick_block_before(u64 own, u64* scratch) {
  u64 sum = own;
  for (u32 o = 1; o < 32; o *= 2) {
    u64 other = __shfl_up_sync(FULL, sum, o);
    if (threadIdx.x % 32 >= o) sum += other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 31) scratch[threadIdx.x / 32] = sum;
  __syncthreads();
  for (u32 w = 0; w < threadIdx.x / 32; w++) sum += scratch[w];
  return sum - own;
}

// ---- Log-sum-exp, bans, and logits of given tokens.

// norm = ln sum e^logit; it is finite only if the row can be used: no logit is NaN or +inf, and not
// all are -inf. Then wanted logits are noted, banned ones become -inf, and the likeliest token of
// what is left is found.
//
// Each thread keeps the largest logit that it has seen and the sum of e^(logit - largest) in f64 (of
// four at a time in f32), and scales the sum when the largest grows: within 1e-7 of the exact norm.
// Moves 4 vocabulary bytes for each row; as many again where the likeliest token is banned.
// An exponential for each logit.
extern "C" __global__ void __launch_bounds__(PICK_THREADS)
    pick_stats(float* logits, u32 vocabulary, u32 stride, const PickRow* rows, const u32* tokens,
               u64* results) {
  __shared__ u64 keys[PICK_WARPS];
  __shared__ double sums[PICK_WARPS];
  const PickRow row = rows[blockIdx.x];
  if (row.kind == PICK_NOTHING) return;
  logits += (u64)blockIdx.x * stride;

  float largest = -3.40282347e38f;
  u32 id = PICK_NO_TOKEN;
  double sum = 0.;
  pick_each_four(logits, vocabulary, [&](const PickFour& four, u32 i) {
    const float* x = four.at;
    float top = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
    if (top > largest || (top == largest && id == PICK_NO_TOKEN)) {
      sum *= (double)exponential(largest - top);
      largest = top;
      id = i + (x[0] == top ? 0 : x[1] == top ? 1 : x[2] == top ? 2 : 3);
    }
    sum += (double)((exponential(x[0] - largest) + exponential(x[1] - largest)) +
                    (exponential(x[2] - largest) + exponential(x[3] - largest)));
  });
  u64 best = pick_block_max(id == PICK_NO_TOKEN ? 0 : pick_key(largest, id), keys);
  float shift = best ? pick_logit(best) : largest;
  sum = pick_block_sum(sum * (double)exponential(largest - shift), sums);

  for (u32 i = threadIdx.x; i < row.wanted; i += PICK_THREADS) {
    u32 token = tokens[row.first_wanted + i];
    results[row.first_result + i] = pick_cell(token, logits[token]);
  }
  if (row.banned || row.mask) {
    __syncthreads();
    for (u32 i = threadIdx.x; i < row.banned; i += PICK_THREADS) {
      logits[tokens[row.first_banned + i]] = -INFINITE;
    }
    for (u32 i = threadIdx.x; row.mask && i < vocabulary; i += PICK_THREADS) {
      if (!(tokens[row.mask - 1 + i / 32] >> i % 32 & 1)) logits[i] = -INFINITE;
    }
    __syncthreads();
    if (best && logits[pick_id(best)] == -INFINITE) {
      u64 own = 0;
      pick_each_four(logits, vocabulary, [&](const PickFour& four, u32 i) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
          u64 key = pick_key(four.at[j], i + j);
          if (key >= PICK_LEAST && key > own) own = key;
        }
      });
      best = pick_block_max(own, keys);
    }
  }
  if (threadIdx.x == 0) {
    ((double*)results)[2 * blockIdx.x] = (double)shift + log(sum);
    results[2 * blockIdx.x + 1] = best ? pick_cell(pick_id(best), pick_logit(best)) : PICK_NO_TOKEN;
  }
}

// ---- The first tokens by number or by share: radix selection.

// Keys are looked at in six steps: 11, 11 and 10 bits of the logit, then as many of the id. Each step
// counts keys (and adds their weights) in bins by their next bits, and the next step looks into the
// bin in which the last of the wanted keys lies. As soon as few enough keys can be wanted they are
// copied to shared memory, and the row is not read again.
enum { PICK_BINS = 2048, PICK_STEPS = 6, PICK_LOGIT_STEPS = 3, PICK_ROOM = 2048 };

// Shared memory of a selection.
struct PickSelection {
  u32 counts[PICK_BINS];
  // Sums of weights in two words each: shared memory adds words.
  u32 low[PICK_BINS], high[PICK_BINS];
  u64 list[PICK_ROOM];
  u32 listed;
  u64 scratch[PICK_WARPS];
  u64 total;
  // The bin with the last of the wanted keys: which, what it has, and what those before it have.
  u32 bin, count, count_before;
  u64 amount, amount_before;
};

// Keys of a row: all of them, or those in shared memory.
struct PickKeys {
  const float* logits;
  u32 vocabulary;
  const u64* list;
  u32 listed;
};

template <class Act>
__device__ __forceinline__ void pick_each_key(const PickKeys& keys, Act act) {
  if (keys.list) {
    for (u32 i = threadIdx.x; i < keys.listed; i += PICK_THREADS) act(keys.list[i]);
  } else {
    pick_each_four(keys.logits, keys.vocabulary, [&](const PickFour& four, u32 i) {
#pragma unroll
      for (u32 j = 0; j < 4; j++) act(pick_key(four.at[j], i + j));
    });
  }
}

// What tokens weigh: e^((logit - best) / temperature); where weights are summed, multiples of 2^-40.
struct PickWeights {
  float best, temperature;
};
__device__ __forceinline__ float pick_weight(const PickWeights& weights, float logit) {
  return exponential((logit - weights.best) / weights.temperature);
}
__device__ __forceinline__ u64 pick_fixed(float weight) { return (u64)(weight * 1099511627776.f); }

// Counts the keys that are at least `floor` and begin with `prefix` by the `bits` bits after it, and
// adds their weights if WEIGHTS.
template <bool WEIGHTS>
__device__ __forceinline__ void pick_fill_bins(PickSelection& s, const PickKeys& keys, u64 floor,
                                               u64 prefix, u32 bits, u32 shift,
                                               const PickWeights& weights) {
  for (u32 bin = threadIdx.x; bin < PICK_BINS; bin += PICK_THREADS) {
    s.counts[bin] = 0;
    if (WEIGHTS) s.low[bin] = s.high[bin] = 0;
  }
  __syncthreads();
  pick_each_key(keys, [&](u64 key) {
    if (key < floor || key >> shift >> bits != prefix) return;
    u32 bin = (u32)(key >> shift) & ((1u << bits) - 1);
    atomicAdd(&s.counts[bin], 1u);
    if (WEIGHTS) {
      u64 weight = pick_fixed(pick_weight(weights, pick_logit(key)));
      u32 low = (u32)weight, high = (u32)(weight >> 32);
      // The low word of the sum overflows where it becomes smaller.
      if (low && (u32)(atomicAdd(&s.low[bin], low) + low) < low) high += 1;
      if (high) atomicAdd(&s.high[bin], high);
    }
  });
  __syncthreads();
}

// Finds the bin in which the amount (keys, or weights if WEIGHTS) reaches `target`, and the sum of
// all. Bins of larger keys are first; each thread looks at four. The bin is not set if the sum is
// smaller than `target`.
template <bool WEIGHTS>
__device__ __forceinline__ void pick_find_bin(PickSelection& s, u64 target) {
  u32 first = PICK_BINS - 1 - 4 * threadIdx.x, counts[4], count = 0;
  u64 amounts[4], amount = 0;
#pragma unroll
  for (u32 j = 0; j < 4; j++) {
    counts[j] = s.counts[first - j];
    amounts[j] = WEIGHTS ? (u64)s.high[first - j] << 32 | s.low[first - j] : counts[j];
    count += counts[j];
    amount += amounts[j];
  }
  u64 before = pick_block_before(amount, s.scratch);
  u64 count_before = WEIGHTS ? pick_block_before(count, s.scratch) : before;
  if (threadIdx.x == PICK_THREADS - 1) s.total = before + amount;
#pragma unroll
  for (u32 j = 0; j < 4; j++) {
    if (before < target && before + amounts[j] >= target) {
      s.bin = first - j;
      s.count = counts[j];
      s.count_before = (u32)count_before;
      s.amount = amounts[j];
      s.amount_before = before;
    }
    before += amounts[j];
    count_before += counts[j];
  }
  __syncthreads();
}

// Copies the keys that are at least `floor`, at most PICK_ROOM, to shared memory, in any order.
__device__ __forceinline__ void pick_shorten(PickSelection& s, PickKeys& keys, u64 floor) {
  if (threadIdx.x == 0) s.listed = 0;
  __syncthreads();
  pick_each_key(keys, [&](u64 key) {
    if (key >= floor) s.list[atomicAdd(&s.listed, 1u)] = key;
  });
  __syncthreads();
  keys.list = s.list;
  keys.listed = s.listed;
}

// Keeps only the first of the keys that are at least `floor`, and returns the least of those: the
// first `count`, or, if SHARE, the first that together have `share` of all their weights, at least
// one. Only `steps` steps are made: keys that are alike up to there are kept together. Reads the row
// at each step until `keys` are in shared memory: most often twice, 8 vocabulary bytes.
template <bool SHARE>
__device__ u64 pick_floor(PickSelection& s, PickKeys& keys, u64 floor, int steps, u32 count,
                          float share, const PickWeights& weights) {
  u64 target = count, prefix = 0;
  u32 shift = 64, kept_before = 0;
  for (int step = 0; step < steps; step++) {
    u32 bits = step % 3 == 2 ? 10 : 11;
    shift -= bits;
    pick_fill_bins<SHARE>(s, keys, floor, prefix, bits, shift, weights);
    if (SHARE && step == 0) {
      pick_find_bin<SHARE>(s, ~0ull);
      target = (u64)fmax(1., ceil((double)share * (double)s.total));
    }
    pick_find_bin<SHARE>(s, target);
    if (step == 0 && s.total <= target) return floor;
    prefix = prefix << bits | s.bin;
    target -= s.amount_before;
    kept_before += s.count_before;
    if (prefix << shift > floor) floor = prefix << shift;
    bool done = s.count == 1 || s.amount == target;
    u32 kept = kept_before + s.count;
    if (!keys.list && kept <= PICK_ROOM) pick_shorten(s, keys, floor);
    if (done) break;
  }
  return floor;
}

// Whether `pick_stats` has found something to choose from.
__device__ __forceinline__ bool pick_has_choice(const u64* results, u32 row) {
  double norm = ((const double*)results)[2 * row];
  return norm - norm == 0. && (u32)results[2 * row + 1] != PICK_NO_TOKEN;
}

// The likeliest `count` tokens, in any order: the host sorts them. If fewer are left, cells of no
// token follow.
//
// Moves about 12 vocabulary bytes for each row that asks for it: two steps and the copy. No
// arithmetic but comparisons and counts.
extern "C" __global__ void __launch_bounds__(PICK_THREADS)
    pick_top(const float* logits, u32 vocabulary, u32 stride, const PickRow* rows,
             const u32* tokens, u64* results) {
  __shared__ PickSelection s;
  __shared__ u32 taken;
  const PickRow row = rows[blockIdx.x];
  if (row.kind != PICK_TOP || !pick_has_choice(results, blockIdx.x)) return;
  if (threadIdx.x == 0) taken = 0;
  PickKeys keys = {logits + (u64)blockIdx.x * stride, vocabulary, 0, 0};
  u64 floor = pick_floor<false>(s, keys, PICK_LEAST, PICK_STEPS, row.count, 1.f, {0.f, 1.f});
  results += row.first_result;
  pick_each_key(keys, [&](u64 key) {
    if (key >= floor) results[atomicAdd(&taken, 1u)] = pick_cell(pick_id(key), pick_logit(key));
  });
  __syncthreads();
  for (u32 i = taken + threadIdx.x; i < row.count; i += PICK_THREADS) results[i] = PICK_NO_TOKEN;
}

// ---- Samples.

// Noise of a row, see `noise.rs`: splitmix64 of its state and the token, 53 bits.
__device__ __forceinline__ u64 pick_noise(u64 state, u32 token) {
  u64 z = (state ^ token) + 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return (z ^ z >> 31) >> 11;
}

// (logit - best) / temperature + g with g = -ln(-ln u), u = (noise + 1/2) / 2^53.
__device__ __forceinline__ double pick_score(const PickWeights& weights, float logit, u64 noise) {
  double u = ((double)noise + 0.5) / 9007199254740992.;
  double relative = ((double)logit - (double)weights.best) / (double)weights.temperature;
  return relative - log(-log(u));
}

// g is below -ln(1 - u), so a token can only have a larger score than `leader` if 1 - u is below
// its weight times e^-leader. That factor, times 2^24 and a little more: weights are computed in
// f32 and wrong by up to 2e-5.
__device__ __forceinline__ float pick_bound(double leader) {
  return (float)(exp(-leader) * 1.001 * 16777216.);
}

// A sample of e^(logit / temperature) over the tokens that are kept: of the likeliest `count` (and
// those as likely as the last of them), the likeliest that together have `share` of the weight. The
// token with the largest score is one: of equal scores the smaller id.
//
// Moves 4 vocabulary bytes for each row that asks for it; where tokens are cut, about 8 instead. An
// exponential and a hash for each token that is kept, logarithms for few.
extern "C" __global__ void __launch_bounds__(PICK_THREADS)
    pick_sample(const float* logits, u32 vocabulary, u32 stride, const PickRow* rows,
                const u32* tokens, u64* results) {
  __shared__ PickSelection s;
  __shared__ double scores[PICK_WARPS];
  __shared__ u32 ids[PICK_WARPS];
  const PickRow row = rows[blockIdx.x];
  if (row.kind != PICK_SAMPLE || !pick_has_choice(results, blockIdx.x)) return;
  logits += (u64)blockIdx.x * stride;
  u64 likeliest = results[2 * blockIdx.x + 1];
  PickWeights weights = {__uint_as_float((u32)(likeliest >> 32)), row.temperature};
  PickKeys keys = {logits, vocabulary, 0, 0};
  u64 floor = PICK_LEAST;
  if (row.count != 0 && row.count < vocabulary) {
    floor = pick_floor<false>(s, keys, floor, PICK_LOGIT_STEPS, row.count, 1.f, weights);
  }
  if (row.share < 1.f) {
    floor = pick_floor<true>(s, keys, floor, PICK_STEPS, 0, row.share, weights);
  }

  // The likeliest token leads. Each thread goes on from there.
  u64 noise = (u64)row.noise_high << 32 | row.noise_low;
  u32 winner = (u32)likeliest;
  double leader = pick_score(weights, weights.best, pick_noise(noise, winner));
  float factor = pick_bound(leader);
  pick_each_key(keys, [&](u64 key) {
    if (key < floor) return;
    u32 id = pick_id(key);
    float logit = pick_logit(key);
    u64 bits = pick_noise(noise, id);
    // The first 24 bits of u: 1 - u is larger than what lacks them and one more.
    float least = (float)(0xffffffu - (u32)(bits >> 29));
    if (!(least < pick_weight(weights, logit) * factor)) return;
    double score = pick_score(weights, logit, bits);
    if (score > leader || (score == leader && id < winner)) {
      leader = score;
      winner = id;
      factor = pick_bound(leader);
    }
  });
  for (int o = 16; o; o >>= 1) {
    double score = __shfl_xor_sync(FULL, leader, o);
    u32 id = __shfl_xor_sync(FULL, winner, o);
    if (score > leader || (score == leader && id < winner)) leader = score, winner = id;
  }
  if (threadIdx.x % 32 == 0) scores[threadIdx.x / 32] = leader, ids[threadIdx.x / 32] = winner;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < PICK_WARPS; w++) {
    if (scores[w] > leader || (scores[w] == leader && ids[w] < winner)) {
      leader = scores[w], winner = ids[w];
    }
  }
  results[row.first_result] = pick_cell(winner, logits[winner]);
}

// ---- For the next step.

// The tokens of `count` rows, with which the next step may go on before the host has read them: of a
// row that asked for a sample or for one token, that, of any other the likeliest; 0 where there is
// nothing to choose from.
//
// rows, results: as above. ids: [count].
// Grid: a block for every 256 rows. Block: 256 threads. Moves about 80 bytes for each row.
extern "C" __global__ void __launch_bounds__(256)
    pick_ids(const PickRow* rows, const u64* results, u32 count, u32* ids) {
  u32 at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const PickRow row = rows[at];
  u32 id = 0;
  if (row.kind != PICK_NOTHING && pick_has_choice(results, at)) {
    bool asked = row.kind == PICK_SAMPLE || row.wanted == 1;
    id = (u32)results[asked ? row.first_result : 2 * at + 1];
  }
  ids[at] = id;
}

#ifdef EMU
EMU_REGISTER(pick_stats)
EMU_REGISTER(pick_top)
EMU_REGISTER(pick_sample)
EMU_REGISTER(pick_ids)
#endif
