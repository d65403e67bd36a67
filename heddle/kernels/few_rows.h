/* The product of few rows with a matrix of weights, which is read once as fast as memory gives it.
   (ADR 45)

   The weights lie as oneDNN's blocked layout has them: panels of 32 outputs, in each [inputs / 2, 32,
   2], which is how a matrix register wants them. */

#ifndef HEDDLE_FEW_ROWS_H
#define HEDDLE_FEW_ROWS_H

#include "matrices.h"

#define PANEL 32 /* outputs */
#define FEW_ROWS (2 * SIDE)
#define AHEAD 16384 /* bytes that are fetched before they are wanted */

/* What `packed_linear.py` passes. */
struct product {
    const number *rows; /* [count, inputs] */
    const number *weights; /* [outputs / 32, inputs / 2, 32, 2] */
    const number *bias; /* [outputs]; NULL: there is none */
    number *out; /* [count, outputs] */
    int64_t count, inputs, outputs; /* up to FEW_ROWS; a multiple of DEPTH; any */
    int64_t next_task;
};

/* One panel; `is_pair`: of more than 16 rows. */
INLINE void multiply_panel(const struct product *w, int64_t panel, float (*sums)[PANEL],
                           int is_pair) {
    const number *weights = w->weights + panel * w->inputs * PANEL, *rows = w->rows;
    const number *below = rows + SIDE * w->inputs;
    int64_t row_bytes = w->inputs * sizeof(number);
    _tile_zero(0);
    _tile_zero(2);
    if (is_pair) _tile_zero(1);
    if (is_pair) _tile_zero(3);
    for (int64_t i = 0; i < w->inputs; i += DEPTH, weights += DEPTH * PANEL) {
        for (int line = 0; line < DEPTH * PANEL; line += 32)
            _mm_prefetch((const char *)(weights + line) + AHEAD, _MM_HINT_T0);
        _tile_loadd(6, weights, 4 * PANEL);
        _tile_loadd(7, weights + PANEL, 4 * PANEL);
        _tile_loadd(4, rows + i, row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 4, 7);
        if (is_pair) {
            _tile_loadd(5, below + i, row_bytes);
            _tile_dpbf16ps(1, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums[0], 4 * PANEL);
    _tile_stored(2, sums[0] + SIDE, 4 * PANEL);
    if (is_pair) _tile_stored(1, sums[SIDE], 4 * PANEL);
    if (is_pair) _tile_stored(3, sums[SIDE] + SIDE, 4 * PANEL);
}

static void give_panel(const struct product *w, int64_t panel, float (*sums)[PANEL]) {
    for (int half = 0; half < PANEL; half += SIDE) {
        int64_t first = panel * PANEL + half;
        if (first >= w->outputs) return;
        __mmask16 some = first_of(w->outputs - first);
        __m512i bias = _mm512_setzero_si512();
        if (w->bias) bias = _mm512_slli_epi32(halves(w->bias + first, w->outputs - first), 16);
        for (int64_t r = 0; r < w->count; r++) {
            floats sum = *(floats *)&sums[r][half] + (floats)bias;
            _mm256_mask_storeu_epi16(w->out + r * w->outputs + first, some,
                                     (__m256i)_mm512_cvtneps_pbh((__m512)sum));
        }
    }
}

static void multiply_tasks(struct product *w) {
    float sums[FEW_ROWS][PANEL] __attribute__((aligned(64)));
    for (;;) {
        int64_t panel = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED);
        if (panel * PANEL >= w->outputs) return;
        if (w->count > SIDE)
            multiply_panel(w, panel, sums, 1);
        else
            multiply_panel(w, panel, sums, 0);
        give_panel(w, panel, sums);
    }
}

#endif
