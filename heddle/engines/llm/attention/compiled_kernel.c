/* Attention of a row's queries over keys that lie anywhere in the pool, and before it, storing the
   keys and values of new tokens there. (ADR 23)

   Keys come in groups, each of which was stored rotated by some distance: the queries are rotated
   to meet them, so that no key is copied. A task is one head of a tile of queries; threads take
   tasks as they are done. Scores are laid out with the queries side by side, so that a vector
   holds one number of several queries, and are kept in base 2. NaN in, NaN out.

   This file needs GCC or Clang, nothing of torch or Python, and from `compiled_kernel.py` QUERIES, of
   a tile, and HEAD_DIM_MAX. */

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define KEYS 96 /* whose scores are kept at once; with the rest they fit into 32 KiB */
#define LINE 16 /* numbers of a cache line */
#define ROWS 6 /* keys or numbers of an output that share a load of queries: 12 sums, 3 operands */
#define LOG2_E 1.44269504088896341f

#ifndef LANES
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#endif
#define PAIR (2 * LANES) /* queries of the two vectors that are worked on at once */
_Static_assert(QUERIES % PAIR == 0, "a tile is made of pairs of vectors");
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
#define INLINE static inline __attribute__((always_inline))

/* What `compiled_rows.py` passes, with the same fields in the same order. */
struct rows {
    const float *query; /* [heads, queries, head_dim] */
    int64_t query_head, query_row; /* strides */
    const float *keys, *values; /* the pool's: [kv_heads, slots, head_dim] */
    int64_t pool_head;
    const int32_t *last_seen; /* [queries], ascending: the last place that each query sees */
    int64_t groups;
    const int64_t *starts; /* [groups + 1]: keys [starts[g], starts[g + 1]) are a group's */
    const int32_t *slots, *places; /* [keys]; places ascend in each group */
    const float *factors; /* [groups, head_dim]: cosine and sine of each pair of numbers */
    float *out; /* [queries, heads, head_dim] */
    int64_t heads, kv_heads, queries, head_dim;
    float scaling;
    int64_t next_task;
};

INLINE floats all(float number) { return number - (floats){0}; }

/* The larger of both; `b` where either is NaN. A loop, which compilers turn into one instruction, but
   for AVX-512: there GCC 12 takes the vectors apart, and attention was 2.8 times slower. */
INLINE floats larger(floats a, floats b) {
#if LANES == 16 && defined __AVX512F__
    return (floats)_mm512_max_ps((__m512)a, (__m512)b);
#else
    floats most;
    for (int i = 0; i < LANES; i++) most[i] = a[i] > b[i] ? a[i] : b[i];
    return most;
#endif
}

/* 2^x for x <= 0, to 3e-7 of it. */
INLINE floats power_of_two(floats x) {
    x = larger(all(-126.0f), x);
    floats shifted = x + 12582912.0f; /* its last bits are the nearest whole number */
    floats rest = x - (shifted - 12582912.0f);
    floats power = all(1.33976429e-3f);
    power = power * rest + 9.61834915e-3f;
    power = power * rest + 5.55034280e-2f;
    power = power * rest + 2.40226507e-1f;
    power = power * rest + 6.93147182e-1f;
    power = power * rest + 1.0f;
    return power * (floats)(((ints)shifted + 127) << 23);
}

/* Scores of `rows` keys, for two vectors of queries. */
INLINE void score(int rows, const float *const *keys, float (*query)[QUERIES], int64_t head_dim,
                  int at, float (*scores)[QUERIES]) {
    floats sums[ROWS][2];
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = all(0.0f);
    for (int64_t i = 0; i < head_dim; i++) {
        floats a = *(floats *)&query[i][at], b = *(floats *)&query[i][at + LANES];
        for (int r = 0; r < rows; r++) {
            floats number = all(keys[r][i]);
            sums[r][0] += number * a;
            sums[r][1] += number * b;
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
            floats number = all(value[r]);
            sums[r][0] += number * a;
            sums[r][1] += number * b;
        }
    }
    for (int r = 0; r < rows; r++) {
        *(floats *)&out[first + r][at] = sums[r][0];
        *(floats *)&out[first + r][at + LANES] = sums[r][1];
    }
}

/* A tile on its way through the keys. */
struct tile {
    float plain[HEAD_DIM_MAX][QUERIES]; /* its queries, scaled */
    float query[HEAD_DIM_MAX][QUERIES]; /* rotated to meet a group's keys */
    float out[HEAD_DIM_MAX][QUERIES];
    float scores[KEYS][QUERIES];
    float largest[QUERIES], weight[QUERIES]; /* score so far, and sum of shares beside it */
    int32_t last_seen[QUERIES];
    int count;
} __attribute__((aligned(64)));

static void take_queries(struct tile *tile, const struct rows *w, const float *query) {
    for (int q = 0; q < QUERIES; q++) {
        /* The last query fills up the tile. */
        const float *own = query + (q < tile->count ? q : tile->count - 1) * w->query_row;
        for (int64_t i = 0; i < w->head_dim; i++)
            tile->plain[i][q] = own[i] * w->scaling * LOG2_E;
    }
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
static void attend_keys(struct tile *tile, const struct rows *w, int64_t pool, int64_t first,
                        int64_t stop) {
    const float *keys[KEYS], *values[KEYS];
    for (; first < stop; first += KEYS) {
        int count = stop - first < KEYS ? stop - first : KEYS;
        for (int j = 0; j < count; j++) {
            int64_t at = pool + w->slots[first + j] * w->head_dim;
            keys[j] = w->keys + at;
            values[j] = w->values + at;
        }
        score_keys(tile, keys, values, count, w->head_dim);
        int hides = w->places[first + count - 1] > tile->last_seen[0];
        if (hides) hide_later_keys(tile, w->places + first, count, -INFINITY);
        share_out(tile, count, w->head_dim);
        /* `power_of_two` never gives 0: too little to weigh, but their values may be large. */
        if (hides) hide_later_keys(tile, w->places + first, count, 0.0f);
        give_values(tile, values, count, w->head_dim);
    }
}

/* The first of keys [first, stop) that stands after a place; `stop` if none does. */
static int64_t after(const int32_t *places, int64_t first, int64_t stop, int32_t place) {
    while (first < stop) {
        int64_t middle = first + (stop - first) / 2;
        if (places[middle] > place)
            stop = middle;
        else
            first = middle + 1;
    }
    return stop;
}

static void attend_tile(struct rows *w, int64_t head, int64_t first) {
    struct tile tile;
    tile.count = w->queries - first < QUERIES ? w->queries - first : QUERIES;
    const float *query = w->query + head * w->query_head + first * w->query_row;
    int64_t pool = head / (w->heads / w->kv_heads) * w->pool_head;
    for (int q = 0; q < QUERIES; q++) {
        tile.largest[q] = -1e30f;
        tile.weight[q] = 0.0f;
        tile.last_seen[q] = w->last_seen[first + (q < tile.count ? q : tile.count - 1)];
    }
    take_queries(&tile, w, query);
    memset(tile.out, 0, sizeof(tile.out[0]) * w->head_dim);
    for (int64_t group = 0; group < w->groups; group++) {
        int64_t start = w->starts[group];
        int64_t stop = after(w->places, start, w->starts[group + 1], tile.last_seen[QUERIES - 1]);
        if (start == stop) continue;
        rotate_queries(&tile, w->factors + group * w->head_dim, w->head_dim);
        attend_keys(&tile, w, pool, start, stop);
    }
    for (int q = 0; q < tile.count; q++) {
        float *out = w->out + ((first + q) * w->heads + head) * w->head_dim;
        for (int64_t i = 0; i < w->head_dim; i++) out[i] = tile.out[i][q] / tile.weight[q];
    }
}

/* What `token_store.py` passes: a layer's new queries, keys and values as one product gives them. */
struct tokens {
    const float *joined; /* [tokens, heads + 2 * kv_heads, head_dim] */
    const float *factors; /* [tokens, head_dim]: cosine and sine of each pair of numbers */
    const int64_t *slots; /* [tokens] */
    float *query; /* [tokens, heads, head_dim] */
    float *keys, *values; /* the pool's: [kv_heads, slots, head_dim] */
    int64_t pool_head;
    int64_t tokens, heads, kv_heads, head_dim;
    int64_t next_task;
};
#define TOKENS 16 /* of a task */

static void rotate_to(float *restrict to, const float *restrict from, const float *restrict factors,
                    int64_t head_dim) {
    for (int64_t i = 0; i < head_dim; i += 2) {
        to[i] = from[i] * factors[i] - from[i + 1] * factors[i + 1];
        to[i + 1] = from[i] * factors[i + 1] + from[i + 1] * factors[i];
    }
}

static void store_token(const struct tokens *w, int64_t token) {
    int64_t size = w->head_dim;
    const float *from = w->joined + token * (w->heads + 2 * w->kv_heads) * size;
    const float *factors = w->factors + token * size;
    for (int64_t head = 0; head < w->heads; head++, from += size)
        rotate_to(w->query + (token * w->heads + head) * size, from, factors, size);
    int64_t place = w->slots[token] * size;
    for (int64_t head = 0; head < w->kv_heads; head++, from += size)
        rotate_to(w->keys + head * w->pool_head + place, from, factors, size);
    for (int64_t head = 0; head < w->kv_heads; head++, from += size)
        memcpy(w->values + head * w->pool_head + place, from, sizeof(float) * size);
}

/* Rotates queries and keys to their places, and stores keys and values; run as `attend_rows`. */
void store_tokens(struct tokens *w) {
    for (;;) {
        int64_t task = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED);
        int64_t stop = (task + 1) * TOKENS < w->tokens ? (task + 1) * TOKENS : w->tokens;
        if (task * TOKENS >= stop) return;
        for (int64_t token = task * TOKENS; token < stop; token++) store_token(w, token);
    }
}

/* Run by every thread of a team, with one struct for all. */
void attend_rows(struct rows *w) {
    int64_t tiles = (w->queries + QUERIES - 1) / QUERIES;
    for (;;) {
        int64_t task = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED);
        if (task >= tiles * w->heads) return;
        attend_tile(w, task / tiles, task % tiles * QUERIES);
    }
}
