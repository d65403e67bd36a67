/* Products with weights of 8 bits on a grid for each group, read once as fast as memory gives them.
   (ADR 47)

   A weight is `code * scale + low`, with a scale and a low for each 32 inputs of an output. Weights lie
   in panels of 16 outputs; in each, for each group: the codes [8, 16 outputs, 4 inputs], then the 16
   scales and the 16 lows as float16. So four inputs of an output fill a place of 32 bits, as the
   instructions for such sums want them, and a group of a panel fills nine cache lines.

   Rows are brought onto a grid as well, for each 32 numbers, but of 15 bits: a product of two groups is
   a sum of whole numbers, which is exact, times both scales. */

#ifndef HEDDLE_QUANTIZED_H
#define HEDDLE_QUANTIZED_H

#include "numbers.h"

#define GROUP 32 /* inputs that share a scale */
#define SIDE_BY_SIDE 16 /* outputs of a panel */
#define QUADS (GROUP / 4)
#define CODE_MOST (127 * 128) /* of a row */
#define QUANTIZED_ROWS 16 /* that are multiplied by whole numbers */
#define GROUPS_AHEAD 16 /* that are fetched before they are wanted */

struct group {
    uint8_t codes[QUADS][SIDE_BY_SIDE][4];
    uint16_t scales[SIDE_BY_SIDE], lows[SIDE_BY_SIDE];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct group) == 576, "nine cache lines");

/* What `quantized_linear.py` passes. */
struct quantized {
    const number *rows; /* [count, inputs] */
    const struct group *weights; /* [panels, inputs / GROUP] */
    const number *bias; /* [outputs]; NULL: there is none */
    number *out; /* [count, outputs] */
    char *scratch; /* of each thread `scratch_bytes`, a multiple of 64 */
    int64_t scratch_bytes;
    int64_t count, inputs, outputs, threads;
    int64_t next_scratch, next_task;
};

/* Which products of whole numbers the CPU sums up fast. */
#if defined __AVX512VNNI__ && defined __AVX512BW__
#define SUMS_OF_8_BITS
#elif defined __AVX2__ && defined __FMA__ && defined __F16C__
#define SUMS_OF_16_BITS
#endif

/* Rows on their grid. A group's numbers are `code * scale`; `sum` is what they add up to. Where sums of
   products of 8 bits are fast, a code lies as `high * 128 + low`: first the group's high parts. */
#ifdef SUMS_OF_8_BITS
typedef struct {
    int8_t high[GROUP], low[GROUP];
} row_group;
#else
typedef struct {
    int16_t codes[GROUP];
} row_group;
#endif
struct grid {
    row_group *codes; /* [rows, groups] */
    float *scales, *sums; /* [rows, groups] */
};

INLINE char *take_scratch(struct quantized *w) {
    return w->scratch + w->scratch_bytes * __atomic_fetch_add(&w->next_scratch, 1, __ATOMIC_RELAXED);
}

/* Exact, also of the smallest ones; scales are finite. */
INLINE float widened_half(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    float whole;
    memcpy(&whole, &bits, 4);
    whole *= 0x1p112f;
    memcpy(&bits, &whole, 4);
    bits |= sign;
    memcpy(&whole, &bits, 4);
    return whole;
}

INLINE int64_t panels_of(const struct quantized *w) {
    return (w->outputs + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
}

/* The whole number nearest to a product, ties to even, of the product as it is: rounded first, it would
   depend on the CPU. It stands in the last bits of a sum. */
INLINE int32_t nearest_product(float a, float b) {
#if defined __FMA__ || defined __ARM_FEATURE_FMA
    float shifted = fmaf(a, b, 12582912.0f);
    int32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    return bits - 0x4b400000;
#else
    double shifted = (double)a * b + 6755399441055744.0;
    int64_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    return (int32_t)bits;
#endif
}

INLINE void keep_code(row_group *to, int i, int32_t code) {
#ifdef SUMS_OF_8_BITS
    int32_t high = (code + 64) >> 7;
    to->high[i] = (int8_t)high;
    to->low[i] = (int8_t)(code - 128 * high);
#else
    to->codes[i] = (int16_t)code;
#endif
}

/* Brings one group of a row onto its grid. What isn't finite makes the scale NaN. */
INLINE void quantize_group(const number *from, row_group *to, float *scale, float *sum) {
    float values[GROUP], most = 0.0f;
    floats mosts = all(0.0f), zeros = all(0.0f); /* number by number a loop would wait for each */
    for (int i = 0; i < GROUP; i += LANES) {
        floats own = load(from + i);
        mosts = larger(larger(own, -own), mosts);
        zeros += own * 0.0f;
        *(floats *)&values[i] = own;
    }
    for (int i = 0; i < LANES; i++) most = mosts[i] > most ? mosts[i] : most;
    /* The inverse of a number below 1e-34 would not be finite. */
    float inverse = most > 1e-30f ? CODE_MOST / most : 0.0f;
    int32_t total = 0;
    for (int i = 0; i < GROUP; i++) {
        int32_t code = nearest_product(values[i], inverse);
        keep_code(to, i, code);
        total += code;
    }
    *scale = most / CODE_MOST + sum_of(zeros);
    *sum = *scale * total;
}

static void quantize_few(const struct quantized *w, const struct grid *grid) {
    int64_t groups = w->count * w->inputs / GROUP;
    for (int64_t g = 0; g < groups; g++)
        quantize_group(w->rows + g * GROUP, grid->codes + g, grid->scales + g, grid->sums + g);
}

/* `rows` rows from `first` on, times one panel: [rows, SIDE_BY_SIDE] sums. */
#ifdef SUMS_OF_8_BITS
INLINE __m512i whole_sums(const __m512i *weights, const int8_t *row) {
    __m512i sums = _mm512_setzero_si512();
    for (int q = 0; q < QUADS; q++) {
        int32_t four;
        memcpy(&four, row + 4 * q, 4);
        sums = _mm512_dpbusd_epi32(sums, weights[q], _mm512_set1_epi32(four));
    }
    return sums;
}

INLINE void multiply_group_rows(int rows, const struct group *panel, int64_t groups,
                                const struct grid *grid, int64_t first,
                                float (*out)[SIDE_BY_SIDE]) {
    __m512 sums[QUANTIZED_ROWS];
    for (int r = 0; r < rows; r++) sums[r] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups; g++, panel++) {
        const char *later = (const char *)(panel + GROUPS_AHEAD);
        for (int line = 0; line < (int)sizeof(*panel); line += 64)
            _mm_prefetch(later + line, _MM_HINT_T0);
        __m512i weights[QUADS];
        for (int q = 0; q < QUADS; q++) weights[q] = _mm512_load_si512(panel->codes[q]);
        __m512 scale = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)panel->scales));
        __m512 low = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)panel->lows));
        for (int r = 0; r < rows; r++) {
            int64_t at = (first + r) * groups + g;
            __m512i high = whole_sums(weights, grid->codes[at].high);
            __m512i rest = whole_sums(weights, grid->codes[at].low);
            __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(high, 7), rest);
            __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(grid->scales[at]));
            sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), both, sums[r]);
            sums[r] = _mm512_fmadd_ps(low, _mm512_set1_ps(grid->sums[at]), sums[r]);
        }
    }
    for (int r = 0; r < rows; r++) _mm512_storeu_ps(out[r], sums[r]);
}
#elif defined SUMS_OF_16_BITS
#define ROWS_TOGETHER 2 /* whose sums fit into the registers */
#define EIGHT (SIDE_BY_SIDE / 2) /* outputs of a vector of sums */

/* Sums of an output's two halves of a group, in [half of the panel][4 outputs each]. */
INLINE void add_quad(__m256i (*whole)[4], const __m256i *weights, const int16_t *row) {
    int64_t four;
    memcpy(&four, row, 8);
    for (int part = 0; part < 4; part++)
        (*whole)[part] = _mm256_add_epi32(
            (*whole)[part], _mm256_madd_epi16(weights[part], _mm256_set1_epi64x(four)));
}

/* Eight outputs' sums from the two halves of each, in their order. */
INLINE __m256 joined_sums(__m256i former, __m256i latter) {
    __m256i pairs = _mm256_hadd_epi32(former, latter); /* 0 1 4 5 | 2 3 6 7 */
    return _mm256_cvtepi32_ps(_mm256_permute4x64_epi64(pairs, 0xd8));
}

INLINE void multiply_few_rows(int rows, const struct group *panel, int64_t groups,
                              const struct grid *grid, int64_t first, float (*out)[SIDE_BY_SIDE]) {
    __m256 sums[ROWS_TOGETHER][2];
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = _mm256_setzero_ps();
    for (int64_t g = 0; g < groups; g++, panel++) {
        __m256i whole[ROWS_TOGETHER][4];
        for (int r = 0; r < rows; r++)
            for (int part = 0; part < 4; part++) whole[r][part] = _mm256_setzero_si256();
        for (int q = 0; q < QUADS; q++) {
            __m256i weights[4];
            for (int part = 0; part < 4; part++)
                weights[part] = _mm256_cvtepu8_epi16(
                    _mm_load_si128((const __m128i *)panel->codes[q][4 * part]));
            for (int r = 0; r < rows; r++)
                add_quad(&whole[r], weights, grid->codes[(first + r) * groups + g].codes + 4 * q);
        }
        for (int half = 0; half < 2; half++) {
            const uint16_t *scales = panel->scales + half * EIGHT, *lows = panel->lows + half * EIGHT;
            __m256 scale = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)scales));
            __m256 low = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)lows));
            for (int r = 0; r < rows; r++) {
                int64_t at = (first + r) * groups + g;
                __m256 products = joined_sums(whole[r][2 * half], whole[r][2 * half + 1]);
                __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(grid->scales[at]));
                __m256 sum = _mm256_fmadd_ps(products, both, sums[r][half]);
                sums[r][half] = _mm256_fmadd_ps(low, _mm256_set1_ps(grid->sums[at]), sum);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++) _mm256_storeu_ps(out[r] + half * EIGHT, sums[r][half]);
}

INLINE void multiply_group_rows(int rows, const struct group *panel, int64_t groups,
                                const struct grid *grid, int64_t first,
                                float (*out)[SIDE_BY_SIDE]) {
    int together = rows < ROWS_TOGETHER ? rows : ROWS_TOGETHER;
    for (int r = 0; r < rows; r += together)
        multiply_few_rows(together, panel, groups, grid, first + r, out + r);
}
#else
INLINE void multiply_group_rows(int rows, const struct group *panel, int64_t groups,
                                const struct grid *grid, int64_t first,
                                float (*out)[SIDE_BY_SIDE]) {
    for (int r = 0; r < rows; r++) {
        float sums[SIDE_BY_SIDE] = {0};
        for (int64_t g = 0; g < groups; g++) {
            int64_t at = (first + r) * groups + g;
            int32_t whole[SIDE_BY_SIDE] = {0};
            for (int i = 0; i < GROUP; i++) {
                int32_t one = grid->codes[at].codes[i];
                for (int o = 0; o < SIDE_BY_SIDE; o++)
                    whole[o] += panel[g].codes[i / 4][o][i % 4] * one;
            }
            for (int o = 0; o < SIDE_BY_SIDE; o++)
                sums[o] += whole[o] * (widened_half(panel[g].scales[o]) * grid->scales[at]) +
                           widened_half(panel[g].lows[o]) * grid->sums[at];
        }
        memcpy(out[r], sums, sizeof(sums));
    }
}
#endif

/* One panel: rows in parts whose number the compiler knows. A panel stays in the first cache. */
static void multiply_quantized_panel(const struct quantized *w, const struct grid *grid,
                                     int64_t number_of_panel, float (*sums)[SIDE_BY_SIDE]) {
    int64_t groups = w->inputs / GROUP, first = 0;
    const struct group *panel = w->weights + number_of_panel * groups;
    for (; w->count - first >= 16; first += 16)
        multiply_group_rows(16, panel, groups, grid, first, sums + first);
    for (; w->count - first >= 8; first += 8)
        multiply_group_rows(8, panel, groups, grid, first, sums + first);
    for (; w->count - first >= 4; first += 4)
        multiply_group_rows(4, panel, groups, grid, first, sums + first);
    for (; w->count - first >= 2; first += 2)
        multiply_group_rows(2, panel, groups, grid, first, sums + first);
    if (first < w->count) multiply_group_rows(1, panel, groups, grid, first, sums + first);
}

static void give_quantized_panel(const struct quantized *w, int64_t panel,
                                 float (*sums)[SIDE_BY_SIDE]) {
    int64_t start = panel * SIDE_BY_SIDE, left = w->outputs - start;
    int outputs = left < SIDE_BY_SIDE ? left : SIDE_BY_SIDE;
    for (int64_t r = 0; r < w->count; r++)
        for (int o = 0; o < outputs; o++) {
            float bias = w->bias ? widened(w->bias[start + o]) : 0.0f;
            w->out[r * w->outputs + start + o] = rounded(sums[r][o] + bias);
        }
}

/* The next of `tasks` for a thread: long runs first, as memory is read fastest, and short ones at the
   end, which no thread waits long for. Returns how many from `first` on. */
INLINE int64_t take_run(struct quantized *w, int64_t tasks, int64_t *first) {
    int64_t count;
    *first = __atomic_load_n(&w->next_task, __ATOMIC_RELAXED);
    do {
        if (*first >= tasks) return 0;
        count = (tasks - *first) / (2 * w->threads);
        count = count > 0 ? count : 1;
    } while (!__atomic_compare_exchange_n(&w->next_task, first, *first + count, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return count;
}

/* Few rows, up to QUANTIZED_ROWS. Each thread brings them onto their grid by itself: that is less than
   waiting for another one. */
static void multiply_panels(struct quantized *w) {
    float sums[QUANTIZED_ROWS][SIDE_BY_SIDE] __attribute__((aligned(64)));
    int64_t panels = panels_of(w), panel, count = take_run(w, panels, &panel);
    if (!count) return;
    char *scratch = take_scratch(w);
    int64_t groups = w->count * w->inputs / GROUP;
    float *scales = (float *)(scratch + groups * sizeof(row_group));
    struct grid grid = {(row_group *)scratch, scales, scales + groups};
    quantize_few(w, &grid);
    for (; count; count = take_run(w, panels, &panel))
        for (int64_t stop = panel + count; panel < stop; panel++) {
            multiply_quantized_panel(w, &grid, panel, sums);
            give_quantized_panel(w, panel, sums);
        }
}

/* One group of a panel, as floats: [GROUP, SIDE_BY_SIDE]. */
INLINE void unpack_group(const struct group *group, float (*to)[SIDE_BY_SIDE]) {
    float scales[SIDE_BY_SIDE], lows[SIDE_BY_SIDE];
    for (int o = 0; o < SIDE_BY_SIDE; o++) scales[o] = widened_half(group->scales[o]);
    for (int o = 0; o < SIDE_BY_SIDE; o++) lows[o] = widened_half(group->lows[o]);
    for (int q = 0; q < QUADS; q++) {
        uint32_t fours[SIDE_BY_SIDE];
        memcpy(fours, group->codes[q], sizeof(fours));
        for (int i = 0; i < 4; i++)
            for (int o = 0; o < SIDE_BY_SIDE; o++)
                to[4 * q + i][o] = (float)(int32_t)(fours[o] >> 8 * i & 255) * scales[o] + lows[o];
    }
}

#endif
