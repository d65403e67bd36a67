/* Products of rows with weights on a grid, both whole numbers of 16 bits, for a CPU that sums up pairs of
   them fast. (ADR 47)

   A tile is a few rows times one panel: its sums fill the registers while a group is summed up, and each
   load of weights serves all its rows. For that the panel's codes become pairs of 16 bits, as many as
   stay in the first cache with what a tile reads. A row's sums are those of `multiply_group_rows`, to
   the bit: how many rows there are changes nothing. */

#ifndef HEDDLE_QUANTIZED_TILES_H
#define HEDDLE_QUANTIZED_TILES_H

#include "quantized.h"

#define TILE_ROWS 6
#define BLOCK_ROWS (16 * TILE_ROWS) /* stay on their grid in the second cache: `quantized_linear.py` */
#define CHUNK 18 /* groups of a panel that are widened at once */

/* A group of a panel, its codes in pairs of inputs. */
struct wide_group {
    int16_t codes[GROUP / 2][SIDE_BY_SIDE][2];
    float scales[SIDE_BY_SIDE], lows[SIDE_BY_SIDE];
} __attribute__((aligned(64)));

/* The first or the second two bytes of each four, as numbers of 16 bits. */
INLINE __m256i pairs_of(__m256i fours, int second) {
    const char a = (char)(2 * second), b = (char)(a + 1), none = -1;
    __m128i places = _mm_setr_epi8(a, none, b, none, a + 4, none, b + 4, none, a + 8, none, b + 8, none,
                                   a + 12, none, b + 12, none);
    return _mm256_shuffle_epi8(fours, _mm256_broadcastsi128_si256(places));
}

static void widen_groups(const struct group *panel, int64_t groups, struct wide_group *to) {
    for (int64_t g = 0; g < groups; g++, panel++, to++)
        for (int half = 0; half < SIDE_BY_SIDE; half += EIGHT) {
            for (int q = 0; q < QUADS; q++) {
                __m256i fours = _mm256_load_si256((const __m256i *)panel->codes[q][half]);
                for (int pair = 0; pair < 2; pair++)
                    _mm256_store_si256((__m256i *)to->codes[2 * q + pair][half], pairs_of(fours, pair));
            }
            const uint16_t *scales = panel->scales + half, *lows = panel->lows + half;
            __m256 scale = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)scales));
            __m256 low = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)lows));
            _mm256_store_ps(to->scales + half, scale);
            _mm256_store_ps(to->lows + half, low);
        }
}

/* Adds the products of a pair of a row's codes with sixteen pairs. Left alone, GCC 12 loads more pairs at
   once than there are registers for, and keeps sums in memory. */
INLINE void add_pair(__m256i *sums, const int16_t *pair, __m256i former, __m256i latter) {
    __m256i both, products, a = sums[0], b = sums[1];
    __asm__("vpbroadcastd %[pair], %[both]\n\t"
            "vpmaddwd %[both], %[former], %[products]\n\t"
            "vpmaddwd %[both], %[latter], %[both]\n\t"
            "vpaddd %[products], %[a], %[a]\n\t"
            "vpaddd %[both], %[b], %[b]"
            : [a] "+x"(a), [b] "+x"(b), [both] "=&x"(both), [products] "=&x"(products)
            : [pair] "m"(*(const int16_t(*)[2])pair), [former] "x"(former), [latter] "x"(latter));
    sums[0] = a;
    sums[1] = b;
}

/* What a tile multiplies: `count` groups of a panel from `start` on, of `groups`, and rows of a grid. */
struct piece {
    const struct wide_group *chunk;
    int64_t start, count, groups;
    const struct grid *grid;
};

/* Adds TILE_ROWS rows from `first` on, times a piece. */
static void add_tile(const struct piece *piece, int64_t first, __m256 (*sums)[2]) {
    const struct wide_group *group = piece->chunk;
    int64_t stop = piece->start + piece->count, groups = piece->groups;
    for (int64_t g = piece->start; g < stop; g++, group++) {
        const row_group *codes = piece->grid->codes + first * groups + g;
        __m256i whole[TILE_ROWS][2];
        for (int r = 0; r < TILE_ROWS; r++) whole[r][0] = whole[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int p = 0; p < GROUP / 2; p++) {
            __m256i former = _mm256_load_si256((const __m256i *)group->codes[p][0]);
            __m256i latter = _mm256_load_si256((const __m256i *)group->codes[p][EIGHT]);
            for (int r = 0; r < TILE_ROWS; r++)
                add_pair(whole[r], codes[r * groups].codes + 2 * p, former, latter);
        }
        for (int half = 0; half < 2; half++) {
            __m256 scale = _mm256_load_ps(group->scales + half * EIGHT);
            __m256 low = _mm256_load_ps(group->lows + half * EIGHT);
            for (int r = 0; r < TILE_ROWS; r++) {
                int64_t at = (first + r) * groups + g;
                __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(piece->grid->scales[at]));
                __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole[r][half]), both, sums[r][half]);
                sums[r][half] = _mm256_fmadd_ps(low, _mm256_set1_ps(piece->grid->sums[at]), sum);
            }
        }
    }
}

INLINE int64_t whole_tiles(int64_t rows) { return (rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS; }

/* A task: some rows, which the grid fills up to whole tiles, times one panel. */
struct block {
    const struct group *panel;
    float *out; /* [rows, SIDE_BY_SIDE], of rows that lie `stride` apart */
    int64_t rows, stride;
};

/* What the next chunk and a tile's outputs need is fetched meanwhile. */
static void multiply_block(const struct block *block, int64_t groups, const struct grid *grid,
                           __m256 (*sums)[2]) {
    struct wide_group chunk[CHUNK];
    memset(sums, 0, whole_tiles(block->rows) * sizeof(*sums));
    for (int64_t start = 0; start < groups; start += CHUNK) {
        int64_t count = groups - start < CHUNK ? groups - start : CHUNK;
        struct piece piece = {chunk, start, count, groups, grid};
        const char *next = (const char *)(block->panel + start + count);
        int64_t bytes = count * sizeof(*block->panel);
        widen_groups(block->panel + start, count, chunk);
        for (int64_t first = 0; first < block->rows; first += TILE_ROWS) {
            int64_t left = block->rows - first, rows = left < TILE_ROWS ? left : TILE_ROWS;
            int64_t stop = (first + rows) * bytes / block->rows;
            for (int64_t at = first * bytes / block->rows & -64; at < stop; at += 64)
                __builtin_prefetch(next + at);
            for (int64_t r = first; r < first + rows; r++)
                __builtin_prefetch(block->out + r * block->stride, 1);
            add_tile(&piece, first, sums + first);
        }
    }
}

static void give_block(const struct block *block, const float *bias, int outputs,
                       const __m256 (*sums)[2]) {
    float biases[SIDE_BY_SIDE] = {0};
    if (bias) memcpy(biases, bias, outputs * sizeof(float));
    for (int64_t r = 0; r < block->rows; r++) {
        float own[SIDE_BY_SIDE];
        for (int half = 0; half < 2; half++)
            _mm256_storeu_ps(own + half * EIGHT,
                             _mm256_add_ps(sums[r][half], _mm256_loadu_ps(biases + half * EIGHT)));
        memcpy(block->out + r * block->stride, own, outputs * sizeof(float));
    }
}

/* Brings rows onto their grid, and zeros behind them that fill the last tile. */
static void quantize_block(const number *rows, int64_t count, int64_t groups, const struct grid *grid) {
    int64_t there = count * groups, missing = (whole_tiles(count) - count) * groups;
    for (int64_t g = 0; g < there; g++)
        quantize_group(rows + g * GROUP, grid->codes + g, grid->scales + g, grid->sums + g);
    memset(grid->codes + there, 0, missing * sizeof(row_group));
    memset(grid->scales + there, 0, missing * sizeof(float));
    memset(grid->sums + there, 0, missing * sizeof(float));
}

/* Any number of rows, in blocks. A task is a block times a panel; a run of tasks begins with the rows of
   its block, which each thread brings onto their grid by itself. */
void multiply_many(struct quantized *w) {
    int64_t groups = w->inputs / GROUP, panels = panels_of(w);
    int64_t blocks = (w->count + BLOCK_ROWS - 1) / BLOCK_ROWS;
    int64_t rows = whole_tiles((w->count + blocks - 1) / blocks);
    int64_t task, run = take_run(w, blocks * panels, &task), former = -1;
    if (!run) return;
    row_group *codes = (row_group *)take_scratch(w);
    float *scales = (float *)(codes + rows * groups);
    struct grid grid = {codes, scales, scales + rows * groups};
    __m256 sums[BLOCK_ROWS][2];
    for (; run; run = take_run(w, blocks * panels, &task))
        for (int64_t stop = task + run; task < stop; task++) {
            int64_t first = task / panels * rows, start = task % panels * SIDE_BY_SIDE;
            int64_t left = w->count - first, outputs = w->outputs - start;
            struct block block = {w->weights + task % panels * groups, w->out + first * w->outputs + start,
                                  left < rows ? left : rows, w->outputs};
            if (first != former)
                quantize_block(w->rows + first * w->inputs, block.rows, groups, &grid);
            former = first;
            multiply_block(&block, groups, &grid, sums);
            give_block(&block, w->bias ? w->bias + start : NULL,
                       outputs < SIDE_BY_SIDE ? outputs : SIDE_BY_SIDE, (const __m256(*)[2])sums);
        }
}

#endif
