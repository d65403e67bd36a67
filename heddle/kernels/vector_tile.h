/* A tile of queries on its way through the keys, by vectors of floats. (ADR 23)

   Keys and values are read where they lie. */

#include "rows.h"

#define KEYS 96 /* whose scores are kept at once; with the rest they fit into 32 KiB */
#define ROWS 6 /* keys or numbers of an output that share a load of queries: 12 sums, 3 operands */
#define PAIR (2 * LANES) /* queries of the two vectors that are worked on at once */
_Static_assert(QUERIES % PAIR == 0, "a tile is made of pairs of vectors");

struct tile {
    float plain[HEAD_DIM_MAX][QUERIES]; /* its queries, scaled */
    float query[HEAD_DIM_MAX][QUERIES]; /* rotated to meet a group's keys */
    float out[HEAD_DIM_MAX][QUERIES];
    float scores[KEYS][QUERIES];
    float largest[QUERIES], weight[QUERIES]; /* score so far, and sum of shares beside it */
    int32_t last_seen[QUERIES];
    int count;
} __attribute__((aligned(64)));
/* Scores of `rows` keys, for two vectors of queries. */
INLINE void score(int rows, const float *const *keys, float (*query)[QUERIES], int64_t head_dim,
                  int at, float (*scores)[QUERIES]) {
    floats sums[ROWS][2];
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = all(0.0f);
    for (int64_t i = 0; i < head_dim; i++) {
        floats a = *(floats *)&query[i][at], b = *(floats *)&query[i][at + LANES];
        for (int r = 0; r < rows; r++) {
            floats one = all(keys[r][i]);
            sums[r][0] += one * a;
            sums[r][1] += one * b;
        }
    }
    for (int r = 0; r < rows; r++) {
        *(floats *)&scores[r][at] = sums[r][0];
        *(floats *)&scores[r][at + LANES] = sums[r][1];
    }
}

/* Adds what `count` keys give to `rows` numbers of the output, for two vectors of queries. */
INLINE void give(int rows, const float *const *values, int64_t first, int count,
                 float (*shares)[QUERIES], int at, float (*out)[QUERIES]) {
    floats sums[ROWS][2];
    for (int r = 0; r < rows; r++) {
        sums[r][0] = *(floats *)&out[first + r][at];
        sums[r][1] = *(floats *)&out[first + r][at + LANES];
    }
    for (int j = 0; j < count; j++) {
        const float *value = values[j] + first;
        floats a = *(floats *)&shares[j][at], b = *(floats *)&shares[j][at + LANES];
        for (int r = 0; r < rows; r++) {
            floats one = all(value[r]);
            sums[r][0] += one * a;
            sums[r][1] += one * b;
        }
    }
    for (int r = 0; r < rows; r++) {
        *(floats *)&out[first + r][at] = sums[r][0];
        *(floats *)&out[first + r][at + LANES] = sums[r][1];
    }
}

static void take_columns(struct tile *tile, const struct column *columns, float scaling,
                         int64_t head_dim) {
    for (int q = 0; q < QUERIES; q++) {
        /* The last column fills up the tile. */
        const struct column *own = columns + (q < tile->count ? q : tile->count - 1);
        for (int64_t i = 0; i < head_dim; i++) tile->plain[i][q] = own->query[i] * scaling;
        tile->last_seen[q] = own->last_seen;
        tile->largest[q] = -1e30f;
        tile->weight[q] = 0.0f;
    }
    memset(tile->out, 0, sizeof(tile->out[0]) * head_dim);
}

static void rotate_queries(struct tile *tile, const float *factors, int64_t head_dim) {
    for (int64_t i = 0; i < head_dim; i += 2) {
        for (int at = 0; at < QUERIES; at += LANES) {
            floats real = *(floats *)&tile->plain[i][at];
            floats imaginary = *(floats *)&tile->plain[i + 1][at];
            *(floats *)&tile->query[i][at] = real * factors[i] - imaginary * factors[i + 1];
            *(floats *)&tile->query[i + 1][at] = real * factors[i + 1] + imaginary * factors[i];
        }
    }
}

/* Values are wanted next, a few numbers of each in turn: too far apart for a CPU to foresee. */
INLINE void fetch(int rows, const float *const *values, int64_t head_dim) {
    for (int r = 0; r < rows; r++)
        for (int64_t i = 0; i < head_dim; i += LINE) __builtin_prefetch(values[r] + i);
}

static void score_keys(struct tile *tile, const float *const *keys, const float *const *values,
                       int count, int64_t head_dim) {
    int j = 0;
    for (; j + ROWS <= count; j += ROWS) {
        fetch(ROWS, values + j, head_dim);
        for (int at = 0; at < QUERIES; at += PAIR)
            score(ROWS, keys + j, tile->query, head_dim, at, tile->scores + j);
    }
    for (; j + 4 <= count; j += 4)
        for (int at = 0; at < QUERIES; at += PAIR)
            score(4, keys + j, tile->query, head_dim, at, tile->scores + j);
    for (; j < count; j++)
        for (int at = 0; at < QUERIES; at += PAIR)
            score(1, keys + j, tile->query, head_dim, at, tile->scores + j);
}

static void hide_later_keys(struct tile *tile, const int32_t *places, int count, float as) {
    for (int j = 0; j < count; j++)
        for (int q = 0; q < QUERIES; q++)
            if (places[j] > tile->last_seen[q]) tile->scores[j][q] = as;
}

/* Turns scores into shares, and shrinks what was given before to the new largest score. */
static void share_out(struct tile *tile, int count, int64_t head_dim) {
    for (int at = 0; at < QUERIES; at += LANES) {
        floats before = *(floats *)&tile->largest[at], top = before;
        for (int j = 0; j < count; j++) top = larger(*(floats *)&tile->scores[j][at], top);
        floats shrink = power_of_two(before - top);
        floats weight = *(floats *)&tile->weight[at] * shrink;
        for (int j = 0; j < count; j++) {
            floats *score = (floats *)&tile->scores[j][at];
            *score = power_of_two(*score - top);
            weight += *score;
        }
        *(floats *)&tile->largest[at] = top;
        *(floats *)&tile->weight[at] = weight;
        for (int64_t i = 0; i < head_dim; i++) *(floats *)&tile->out[i][at] *= shrink;
    }
}

static void give_values(struct tile *tile, const float *const *values, int count, int64_t head_dim) {
    for (int at = 0; at < QUERIES; at += PAIR) {
        int64_t i = 0;
        /* Fours until sixes fill up the rest: fewer would wait for one another's sums. */
        for (; (head_dim - i) % ROWS && i + 4 <= head_dim; i += 4)
            give(4, values, i, count, tile->scores, at, tile->out);
        for (; i + ROWS <= head_dim; i += ROWS)
            give(ROWS, values, i, count, tile->scores, at, tile->out);
        for (; i < head_dim; i += 2) give(2, values, i, count, tile->scores, at, tile->out);
    }
}

/* Keys [first, stop) of one group, which no query of the tile sees the end of. */
static void attend_keys(struct tile *tile, const struct pool *pool, int64_t first, int64_t stop,
                        int64_t head_dim) {
    const float *keys[KEYS], *values[KEYS];
    for (; first < stop; first += KEYS) {
        int count = stop - first < KEYS ? stop - first : KEYS;
        for (int j = 0; j < count; j++) {
            int64_t at = pool->slots[first + j] * head_dim;
            keys[j] = pool->keys + at;
            values[j] = pool->values + at;
        }
        score_keys(tile, keys, values, count, head_dim);
        int hides = pool->places[first + count - 1] > tile->last_seen[0];
        if (hides) hide_later_keys(tile, pool->places + first, count, -INFINITY);
        share_out(tile, count, head_dim);
        /* `power_of_two` never gives 0: too little to weigh, but their values may be large. */
        if (hides) hide_later_keys(tile, pool->places + first, count, 0.0f);
        give_values(tile, values, count, head_dim);
    }
}

static void give_columns(const struct tile *tile, const struct column *columns, int64_t head_dim) {
    for (int q = 0; q < tile->count; q++)
        for (int64_t i = 0; i < head_dim; i++)
            columns[q].out[i] = tile->out[i][q] / tile->weight[q];
}
