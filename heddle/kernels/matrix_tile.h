/* A tile of queries on its way through the keys, by matrix products in bfloat16. (ADR 45, ADR 61)

   A product of AMX takes 16 rows of 32 numbers as they lie, and 32 rows of 16 numbers with two rows
   interleaved. So scores are keys times queries, as `vector_tile.h` has them, too: queries are
   interleaved once for each group of keys, shares as they are rounded. The output is values times
   shares: values alone have to be transposed. Vectors take the same: pairs of a row, and pairs of rows. */

#include "matrices.h"
#include "rows.h"

#define KEYS 128 /* whose scores are kept at once */
_Static_assert(QUERIES % DEPTH == 0 && KEYS % DEPTH == 0 && HEAD_DIM_MAX % DEPTH == 0,
               "tiles are made of matrices");
struct tile {
    float plain[HEAD_DIM_MAX][QUERIES]; /* its queries, scaled */
    float out[HEAD_DIM_MAX][QUERIES];
    float scores[KEYS][QUERIES];
    uint32_t query[HEAD_DIM_MAX / 2][QUERIES]; /* rotated to meet a group's keys; two numbers each */
    uint32_t shares[KEYS / 2][QUERIES]; /* of two keys each */
    number keys[KEYS * HEAD_DIM_MAX]; /* [KEYS, depth] */
    number values[HEAD_DIM_MAX][KEYS];
    float largest[QUERIES], weight[QUERIES]; /* score so far, and sum of shares beside it */
    int32_t last_seen[QUERIES];
    int count, width; /* queries, and the columns that they take */
    int64_t depth; /* numbers of a head, filled up with zeros */
} __attribute__((aligned(64)));

INLINE int64_t filled(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

/* Shapes: 16 vectors of 16 numbers. */
INLINE void transpose(__m512i rows[SIDE]) {
    __m512i pairs[SIDE], fours[SIDE], eights[SIDE];
    for (int r = 0; r < SIDE; r += 2) {
        pairs[r] = _mm512_unpacklo_epi32(rows[r], rows[r + 1]);
        pairs[r + 1] = _mm512_unpackhi_epi32(rows[r], rows[r + 1]);
    }
    for (int r = 0; r < SIDE; r += 4)
        for (int half = 0; half < 2; half++) {
            fours[r + 2 * half] = _mm512_unpacklo_epi64(pairs[r + half], pairs[r + 2 + half]);
            fours[r + 2 * half + 1] = _mm512_unpackhi_epi64(pairs[r + half], pairs[r + 2 + half]);
        }
    for (int r = 0; r < SIDE; r += 8)
        for (int at = 0; at < 4; at++) {
            eights[r + at] = _mm512_shuffle_i32x4(fours[r + at], fours[r + 4 + at], 0x88);
            eights[r + 4 + at] = _mm512_shuffle_i32x4(fours[r + at], fours[r + 4 + at], 0xdd);
        }
    for (int at = 0; at < 8; at++) {
        rows[at] = _mm512_shuffle_i32x4(eights[at], eights[8 + at], 0x88);
        rows[8 + at] = _mm512_shuffle_i32x4(eights[at], eights[8 + at], 0xdd);
    }
}

/* Two vectors of floats, each rounded, the second in the upper halves. Ties go away from 0. */
INLINE __m512i interleaved(floats low, floats high) {
    __m512i half = _mm512_set1_epi32(0x8000);
    __m512i lower = _mm512_srli_epi32(_mm512_add_epi32((__m512i)low, half), 16);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, lower, _mm512_add_epi32((__m512i)high, half));
}

/* 2^x for x <= 0, to 4e-6 of it: it is rounded to 2e-3 of it anyway. 0 for -infinity. */
INLINE floats rough_power_of_two(floats x) {
    floats rest = (floats)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | 8); /* x - floor(x) */
    floats power = all(1.35557440e-2f);
    power = power * rest + 5.20323700e-2f;
    power = power * rest + 2.41379760e-1f;
    power = power * rest + 6.93032120e-1f;
    power = power * rest + 1.0f;
    return (floats)_mm512_scalef_ps((__m512)power, (__m512)x);
}

/* Numbers [32, depth] times interleaved ones [depth, columns]: 16 columns, or 32 if they are a pair.
   `out` is what the sums begin with, where it `adds`. */
INLINE void multiply(const number *a, int64_t a_row, const uint32_t *b, int64_t depth, float *out,
                     int adds, int is_pair) {
    const int64_t row_bytes = 4 * QUERIES;
#ifdef __AMX_BF16__
    float *below = out + SIDE * QUERIES;
    __asm__ volatile("" ::: "memory"); /* GCC doesn't know that matrix registers read memory */
    if (adds) {
        _tile_loadd(0, out, row_bytes);
        _tile_loadd(1, below, row_bytes);
        if (is_pair) _tile_loadd(2, out + SIDE, row_bytes);
        if (is_pair) _tile_loadd(3, below + SIDE, row_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        if (is_pair) _tile_zero(2);
        if (is_pair) _tile_zero(3);
    }
    for (; depth > 0; depth -= DEPTH, a += DEPTH, b += DEPTH / 2 * QUERIES) {
        _tile_loadd(4, a, a_row * sizeof(number));
        _tile_loadd(5, a + SIDE * a_row, a_row * sizeof(number));
        _tile_loadd(6, b, row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        if (is_pair) {
            _tile_loadd(7, b + SIDE, row_bytes);
            _tile_dpbf16ps(2, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, out, row_bytes);
    _tile_stored(1, below, row_bytes);
    if (is_pair) _tile_stored(2, out + SIDE, row_bytes);
    if (is_pair) _tile_stored(3, below + SIDE, row_bytes);
#else
    for (int r = 0; r < DEPTH; r += ROWS_AT_ONCE)
        multiply_pairs(ROWS_AT_ONCE, is_pair ? 2 : 1, a + r * a_row, a_row, b, row_bytes, depth,
                       out + r * QUERIES, QUERIES, adds, 0);
#endif
}

/* `multiply` for all columns of a tile, and as many rows as there are. */
static void multiply_all(const struct tile *tile, const number *a, int64_t a_row, int64_t rows,
                         const uint32_t (*b)[QUERIES], int64_t depth, float (*out)[QUERIES],
                         int adds) {
    for (int64_t r = 0; r < rows; r += DEPTH) {
        int at = 0;
        for (; at + 2 * SIDE <= tile->width; at += 2 * SIDE)
            multiply(a + r * a_row, a_row, &b[0][at], depth, &out[r][at], adds, 1);
        if (at < tile->width)
            multiply(a + r * a_row, a_row, &b[0][at], depth, &out[r][at], adds, 0);
    }
}

static void take_columns(struct tile *tile, const struct column *columns, float scaling,
                         int64_t head_dim) {
    tile->width = filled(tile->count, SIDE);
    tile->depth = filled(head_dim, DEPTH);
    for (int at = 0; at < tile->width; at += SIDE)
        for (int64_t i = 0; i < tile->depth; i += SIDE) {
            __m512i rows[SIDE];
            for (int r = 0; r < SIDE; r++) {
                int q = at + r < tile->count ? at + r : tile->count - 1;
                int64_t left = i < head_dim ? head_dim - i : 0;
                __m512i bits = _mm512_slli_epi32(halves(columns[q].query + i, left), 16);
                rows[r] = (__m512i)((floats)bits * scaling);
            }
            transpose(rows);
            for (int r = 0; r < SIDE; r++) *(__m512i *)&tile->plain[i + r][at] = rows[r];
        }
    for (int q = 0; q < tile->width; q++) {
        tile->last_seen[q] = columns[q < tile->count ? q : tile->count - 1].last_seen;
        tile->largest[q] = -1e30f;
        tile->weight[q] = 0.0f;
    }
    memset(tile->out, 0, sizeof(tile->out[0]) * tile->depth);
}

static void rotate_queries(struct tile *tile, const float *factors, int64_t head_dim) {
    for (int64_t i = 0; i < tile->depth; i += 2) {
        float cosine = i < head_dim ? factors[i] : 0.0f;
        float sine = i < head_dim ? factors[i + 1] : 0.0f;
        for (int at = 0; at < tile->width; at += SIDE) {
            floats real = *(floats *)&tile->plain[i][at];
            floats imaginary = *(floats *)&tile->plain[i + 1][at];
            *(__m512i *)&tile->query[i / 2][at] =
                interleaved(real * cosine - imaginary * sine, real * sine + imaginary * cosine);
        }
    }
}

/* Copies keys, and values transposed, for as many keys as a product takes. */
static void bring_keys(struct tile *tile, const struct pool *pool, int64_t first, int count,
                       int64_t head_dim) {
    const number *values[KEYS];
    for (int j = 0; j < count; j++) {
        int64_t place = pool->slots[first + j] * head_dim;
        values[j] = pool->values + place;
        number *to = tile->keys + j * tile->depth;
        for (int64_t i = 0; i < tile->depth; i += DEPTH) {
            int64_t left = head_dim - i < DEPTH ? head_dim - i : DEPTH;
            __mmask32 some = left == DEPTH ? 0xffffffff : (1u << left) - 1;
            _mm512_storeu_si512(to + i, _mm512_maskz_loadu_epi16(some, pool->keys + place + i));
        }
    }
    for (int j = 0; j < filled(count, DEPTH); j += DEPTH)
        for (int64_t i = 0; i < head_dim; i += SIDE) {
            __m512i rows[SIDE];
            for (int r = 0; r < SIDE; r++) {
                int key = j + 2 * r;
                rows[r] = _mm512_setzero_si512();
                if (key < count) rows[r] = halves(values[key] + i, head_dim - i);
                if (key + 1 < count) {
                    __m512i upper = halves(values[key + 1] + i, head_dim - i);
                    rows[r] = _mm512_or_si512(rows[r], _mm512_slli_epi32(upper, 16));
                }
            }
            transpose(rows);
            for (int r = 0; r < SIDE; r++) _mm512_storeu_si512(&tile->values[i + r][j], rows[r]);
        }
    for (int64_t i = filled(head_dim, SIDE); i < tile->depth; i++)
        memset(tile->values[i], 0, sizeof(tile->values[i]));
}

/* Keys that a column doesn't see, and those that fill up a product, weigh nothing. */
static void hide_keys(struct tile *tile, const int32_t *places, int count) {
    if (places[count - 1] > tile->last_seen[0])
        for (int j = 0; j < count; j++)
            for (int at = 0; at < tile->width; at += SIDE) {
                __m512i seen = _mm512_loadu_si512(&tile->last_seen[at]);
                __mmask16 hidden = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(places[j]), seen);
                _mm512_mask_storeu_ps(&tile->scores[j][at], hidden, (__m512)all(-INFINITY));
            }
    for (int j = count; j < filled(count, DEPTH); j++)
        for (int at = 0; at < tile->width; at += SIDE)
            *(floats *)&tile->scores[j][at] = all(-INFINITY);
}

/* Turns scores into shares, and shrinks what was given before to the new largest score. */
static void share_out(struct tile *tile, int count) {
    for (int at = 0; at < tile->width; at += SIDE) {
        floats before = *(floats *)&tile->largest[at], top = before;
        for (int j = 0; j < count; j++) top = larger(*(floats *)&tile->scores[j][at], top);
        floats weight = *(floats *)&tile->weight[at];
        if (_mm512_cmp_ps_mask((__m512)top, (__m512)before, _CMP_NEQ_UQ)) {
            floats shrink = rough_power_of_two(before - top);
            weight *= shrink;
            for (int64_t i = 0; i < tile->depth; i++) *(floats *)&tile->out[i][at] *= shrink;
            *(floats *)&tile->largest[at] = top;
        }
        for (int j = 0; j < count; j += 2) {
            floats one = rough_power_of_two(*(floats *)&tile->scores[j][at] - top);
            floats other = rough_power_of_two(*(floats *)&tile->scores[j + 1][at] - top);
            weight += one + other;
            *(__m512i *)&tile->shares[j / 2][at] = interleaved(one, other);
        }
        *(floats *)&tile->weight[at] = weight;
    }
}

/* Keys [first, stop) of one group, which no query of the tile sees the end of. */
static void attend_keys(struct tile *tile, const struct pool *pool, int64_t first, int64_t stop,
                        int64_t head_dim) {
    for (; first < stop; first += KEYS) {
        int count = stop - first < KEYS ? stop - first : KEYS, products = filled(count, DEPTH);
        bring_keys(tile, pool, first, count, head_dim);
        multiply_all(tile, tile->keys, tile->depth, products, tile->query, tile->depth,
                     tile->scores, 0);
        hide_keys(tile, pool->places + first, count);
        share_out(tile, products);
        multiply_all(tile, tile->values[0], KEYS, tile->depth, tile->shares, products, tile->out, 1);
    }
}

static void give_columns(const struct tile *tile, const struct column *columns, int64_t head_dim) {
    for (int at = 0; at < tile->width; at += SIDE) {
        floats share = 1.0f / *(const floats *)&tile->weight[at];
        for (int64_t i = 0; i < head_dim; i += SIDE) {
            __m512i rows[SIDE];
            for (int r = 0; r < SIDE; r++)
                rows[r] = (__m512i)(*(const floats *)&tile->out[i + r][at] * share);
            transpose(rows);
            for (int r = 0; r < SIDE && at + r < tile->count; r++) {
                __m256i some = (__m256i)_mm512_cvtneps_pbh((__m512)rows[r]);
                _mm256_mask_storeu_epi16(columns[at + r].out + i, first_of(head_dim - i), some);
            }
        }
    }
}
