/* The product of few rows with a matrix of weights, which is read once as fast as memory gives it.
   (ADR 45, ADR 61)

   The weights lie as oneDNN's blocked layout has them: panels of outputs, in each [inputs / 2, outputs,
   2], which is how a matrix register wants them, and a vector of pairs. */

#ifndef HEDDLE_FEW_ROWS_H
#define HEDDLE_FEW_ROWS_H

#include "matrices.h"

#ifdef __AMX_BF16__
#define PANEL 32 /* outputs; oneDNN takes as many there */
#else
#define PANEL 64
#endif
#define ROWS_OF_PART 4
#define FEW_ROWS (2 * SIDE)
#define AHEAD 16384 /* bytes that are fetched before they are wanted */

/* What `packed_linear.py` passes. */
struct product {
    const number *rows; /* [count, inputs] */
    const number *weights; /* [outputs / PANEL, inputs / 2, PANEL, 2] */
    const number *bias; /* [outputs]; NULL: there is none */
    number *out; /* [count, outputs] */
    int64_t count, inputs, outputs; /* up to FEW_ROWS; a multiple of DEPTH; any */
    int64_t next_task;
};

#ifdef __AMX_BF16__
/* One panel, of `width` outputs; it is of 32. `sums`: [count, width]. */
INLINE void multiply_panel(const struct product *w, int64_t panel, int width, float *sums) {
    const number *weights = w->weights + panel * w->inputs * width, *rows = w->rows;
    const number *below = rows + SIDE * w->inputs;
    float *sums_below = sums + SIDE * width;
    int64_t row_bytes = w->inputs * sizeof(number), line_bytes = 4 * width;
    int is_pair = w->count > SIDE;
    _tile_zero(0);
    _tile_zero(2);
    if (is_pair) _tile_zero(1);
    if (is_pair) _tile_zero(3);
    for (int64_t i = 0; i < w->inputs; i += DEPTH, weights += DEPTH * width) {
        for (int line = 0; line < DEPTH * width; line += 32)
            _mm_prefetch((const char *)(weights + line) + AHEAD, _MM_HINT_T0);
        _tile_loadd(6, weights, line_bytes);
        _tile_loadd(7, weights + 2 * SIDE, line_bytes);
        _tile_loadd(4, rows + i, row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 4, 7);
        if (is_pair) {
            _tile_loadd(5, below + i, row_bytes);
            _tile_dpbf16ps(1, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, line_bytes);
    _tile_stored(2, sums + SIDE, line_bytes);
    if (is_pair) _tile_stored(1, sums_below, line_bytes);
    if (is_pair) _tile_stored(3, sums_below + SIDE, line_bytes);
}
#else
INLINE void multiply_rows(int rows, const struct product *w, const number *weights, int64_t first,
                          int width, float *sums) {
    multiply_pairs(rows, width / SIDE, w->rows + first * w->inputs, w->inputs, weights, 4 * width,
                   w->inputs, sums + first * width, width, 0, first ? 0 : AHEAD);
}

/* One panel, of `width` outputs: rows in parts whose number the compiler knows, of which the first
   alone waits for memory. `sums`: [count, width]. */
INLINE void multiply_panel(const struct product *w, int64_t panel, int width, float *sums) {
    const number *weights = w->weights + panel * w->inputs * width;
    int64_t first = 0;
    for (; w->count - first >= ROWS_OF_PART; first += ROWS_OF_PART)
        multiply_rows(ROWS_OF_PART, w, weights, first, width, sums);
    for (; w->count - first >= 2; first += 2) multiply_rows(2, w, weights, first, width, sums);
    if (w->count > first) multiply_rows(1, w, weights, first, width, sums);
}
#endif

static void give_panel(const struct product *w, int64_t panel, int width, const float *sums) {
    for (int at = 0; at < width; at += SIDE) {
        int64_t first = panel * width + at;
        if (first >= w->outputs) return;
        __mmask16 some = first_of(w->outputs - first);
        __m512i bias = _mm512_setzero_si512();
        if (w->bias) bias = _mm512_slli_epi32(halves(w->bias + first, w->outputs - first), 16);
        for (int64_t r = 0; r < w->count; r++) {
            floats sum = *(const floats *)(sums + r * width + at) + (floats)bias;
            _mm256_mask_storeu_epi16(w->out + r * w->outputs + first, some,
                                     (__m256i)_mm512_cvtneps_pbh((__m512)sum));
        }
    }
}

static void multiply_tasks(struct product *w) {
    float sums[FEW_ROWS * PANEL] __attribute__((aligned(64)));
    for (;;) {
        int64_t panel = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED);
        if (panel * PANEL >= w->outputs) return;
        multiply_panel(w, panel, PANEL, sums);
        give_panel(w, panel, PANEL, sums);
    }
}

#endif
