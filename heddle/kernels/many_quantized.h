/* Products of many rows with weights on a grid. (ADR 47)

   In bfloat16 weights become numbers again, a piece at a time, while they lie in a cache. In float32
   they are multiplied as whole numbers where the CPU sums up products of 16 bits fast, as those of few
   rows are, and to the same bits. Elsewhere they become numbers for torch's product. */

#include "quantized.h"

#ifdef BFLOAT16
#include "few_rows.h"

#define UNPACKED 32 /* outputs of two panels, which are unpacked into one */

/* One group of a panel: pairs of inputs side by side, in the left or the right half of `to`'s lines. */
INLINE void unpack_to_halves(const struct group *group, number *to) {
    __m512 scale = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)group->scales));
    __m512 low = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)group->lows));
    for (int q = 0; q < QUADS; q++) {
        __m512i fours = _mm512_load_si512(group->codes[q]);
        __m512 values[4];
        for (int i = 0; i < 4; i++) {
            __m512i code = _mm512_and_si512(_mm512_srli_epi32(fours, 8 * i), _mm512_set1_epi32(255));
            values[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(code), scale, low);
        }
        for (int i = 0; i < 4; i += 2, to += 2 * UNPACKED) {
            __m512i even = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(values[i]));
            __m512i odd = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(values[i + 1]));
            _mm512_storeu_si512(to, _mm512_or_si512(_mm512_slli_epi32(odd, 16), even));
        }
    }
}

/* Two panels as `few_rows.h` wants one: [inputs / 2, UNPACKED, 2]. The second one may be missing. */
static void unpack_pair(const struct quantized *w, int64_t pair, number *to) {
    static const struct group none;
    int64_t groups = w->inputs / GROUP;
    for (int64_t g = 0; g < groups; g++, to += GROUP * UNPACKED) {
        const struct group *left = w->weights + 2 * pair * groups + g;
        int has_right = 2 * pair + 1 < panels_of(w);
        unpack_to_halves(left, to);
        unpack_to_halves(has_right ? left + groups : &none, to + UNPACKED);
    }
}

/* More than SIDE rows: in parts of FEW_ROWS, of which the last one ends with the last row. */
void multiply_many(struct quantized *w) {
    float sums[FEW_ROWS * UNPACKED] __attribute__((aligned(64)));
    int64_t part = w->count < FEW_ROWS ? w->count : FEW_ROWS;
    int64_t pairs = (w->outputs + UNPACKED - 1) / UNPACKED;
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
            multiply_panel(&product, 0, UNPACKED, sums);
            product.bias = w->bias;
            product.out = w->out + first * w->outputs;
            give_panel(&product, pair, UNPACKED, sums);
        }
    }
    end_matrices(&before);
}
#elif defined SUMS_OF_16_BITS
#include "quantized_tiles.h"
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
#endif
