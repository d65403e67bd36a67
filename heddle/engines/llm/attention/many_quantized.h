/* Products of many rows with weights on a grid: weights become numbers again, a piece at a time, while
   they lie in a cache. (ADR 47) */

#include "quantized.h"

#ifdef BFLOAT16
#include "few_rows.h"

/* Two panels as `few_rows.h` wants one: [inputs / 2, 32, 2]. The second one may be missing. */
static void unpack_pair(const struct quantized *w, int64_t pair, number *to) {
    int64_t groups = w->inputs / GROUP;
    float values[GROUP][SIDE_BY_SIDE];
    for (int half = 0; half < 2; half++) {
        int64_t panel = 2 * pair + half;
        for (int64_t g = 0; g < groups; g++) {
            number *out = to + g * GROUP * PANEL + half * SIDE_BY_SIDE * 2;
            if (panel < panels_of(w))
                unpack_group(w->weights + panel * groups + g, values);
            else
                memset(values, 0, sizeof(values));
            for (int i = 0; i < GROUP; i += 2, out += 2 * PANEL) {
                __m256i even = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(values[i]));
                __m256i odd = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(values[i + 1]));
                __m512i both = _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16);
                _mm512_storeu_si512(out, _mm512_or_si512(both, _mm512_cvtepu16_epi32(even)));
            }
        }
    }
}

/* More than SIDE rows: in parts of FEW_ROWS, of which the last one ends with the last row. */
void multiply_many(struct quantized *w) {
    float sums[FEW_ROWS][PANEL] __attribute__((aligned(64)));
    int64_t part = w->count < FEW_ROWS ? w->count : FEW_ROWS;
    int64_t pairs = (w->outputs + PANEL - 1) / PANEL;
    int64_t pair = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED);
    if (pair >= pairs) return;
    number *unpacked = (number *)take_scratch(w);
    struct matrices before;
    begin_matrices(&before, SIDE, part - SIDE);
    for (; pair < pairs; pair = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED)) {
        unpack_pair(w, pair, unpacked);
        for (int64_t row = 0; row < w->count; row += part) {
            int64_t first = row < w->count - part ? row : w->count - part;
            struct product product = {w->rows + first * w->inputs, unpacked, NULL, NULL, part,
                                      w->inputs, w->outputs, 0};
            multiply_panel(&product, 0, sums, 1);
            product.bias = w->bias;
            product.out = w->out + first * w->outputs;
            give_panel(&product, pair, sums);
        }
    }
    end_matrices(&before);
}
#else

/* What `quantized_linear.py` passes: some panels of weights, and where their numbers go. */
struct unpacking {
    const struct group *weights; /* [panels, inputs / GROUP] */
    float *out; /* [inputs, panels * SIDE_BY_SIDE] */
    int64_t panels, inputs;
    int64_t next_task;
};

void unpack_panels(struct unpacking *w) {
    int64_t groups = w->inputs / GROUP, outputs = w->panels * SIDE_BY_SIDE;
    float values[GROUP][SIDE_BY_SIDE];
    for (;;) {
        int64_t panel = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED);
        if (panel >= w->panels) return;
        for (int64_t g = 0; g < groups; g++) {
            unpack_group(w->weights + panel * groups + g, values);
            for (int i = 0; i < GROUP; i++)
                memcpy(w->out + (g * GROUP + i) * outputs + panel * SIDE_BY_SIDE, values[i],
                       sizeof(values[i]));
        }
    }
}

/* What `quantized_linear.py` passes: rows, and where they go on their grid. */
struct rounding {
    const float *rows; /* [groups, GROUP] */
    float *out; /* the same */
    int64_t groups;
    int64_t next_task;
};

void round_rows(struct rounding *w) {
    enum { GROUPS_OF_TASK = 512 };
    int8_t codes[GROUP];
    float scale, sum;
    for (;;) {
        int64_t start = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED) * GROUPS_OF_TASK;
        if (start >= w->groups) return;
        for (int64_t g = start; g < start + GROUPS_OF_TASK && g < w->groups; g++) {
            quantize_group(w->rows + g * GROUP, codes, &scale, &sum);
            for (int i = 0; i < GROUP; i++) w->out[g * GROUP + i] = codes[i] * scale;
        }
    }
}
#endif
