/* Attention of a few columns, a row that decodes: vectors hold numbers of one head. (ADR 45, ADR 61)

   A tile would compute columns that nobody wants, and few columns read each key once: so what counts
   is that keys and values come from memory without a pause. A key is widened once for all columns,
   whose number the compiler knows. */

#include "rows.h"

#define FEW_KEYS 64 /* whose scores are kept at once */
#if LANES == 16
#define SUMS_MAX 24 /* vectors of sums that fit into the registers beside what is added to them */
#else
#define SUMS_MAX 12
#endif

/* Queries and outputs have the numbers of each 2 * LANES in the order of `load_two`. */
struct few {
    float plain[FEW][HEAD_DIM_MAX]; /* its queries, scaled, in their own order */
    float query[FEW][HEAD_DIM_MAX]; /* rotated to meet a group's keys */
    float out[FEW][HEAD_DIM_MAX];
    float scores[FEW][FEW_KEYS];
    float largest[FEW], weight[FEW]; /* score so far, and sum of shares beside it */
    int count;
} __attribute__((aligned(64)));

static void rotate_few(struct few *few, const float *factors, int64_t head_dim) {
    for (int c = 0; c < few->count; c++) {
        for (int64_t i = 0; i < head_dim; i += 2) {
            float real = few->plain[c][i], imaginary = few->plain[c][i + 1];
            few->query[c][i] = real * factors[i] - imaginary * factors[i + 1];
            few->query[c][i + 1] = real * factors[i + 1] + imaginary * factors[i];
        }
        for (int64_t i = 0; i + 2 * LANES <= head_dim; i += 2 * LANES)
            split_two((floats *)&few->query[c][i], (floats *)&few->query[c][i + LANES]);
    }
}

/* Scores of `rows` keys for all columns. */
INLINE void score_some(struct few *few, const number *const *keys, int first, int rows, int columns,
                       int64_t head_dim) {
    floats sums[LANES];
    for (int s = 0; s < LANES; s++) sums[s] = all(0.0f);
    int64_t i = 0;
    for (; i + 2 * LANES <= head_dim; i += 2 * LANES)
        for (int r = 0; r < rows; r++) {
            floats former, latter;
            load_two(keys[r] + i, &former, &latter);
            for (int c = 0; c < columns; c++) {
                floats *sum = &sums[r * columns + c];
                *sum += *(floats *)&few->query[c][i] * former;
                *sum += *(floats *)&few->query[c][i + LANES] * latter;
            }
        }
    for (; i < head_dim; i += LANES)
        for (int r = 0; r < rows; r++) {
            floats own = load(keys[r] + i);
            for (int c = 0; c < columns; c++)
                sums[r * columns + c] += *(floats *)&few->query[c][i] * own;
        }
    floats found = sums_of(sums);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) few->scores[c][first + r] = found[r * columns + c];
}

/* The scores of one key. */
INLINE void score_one(struct few *few, const number *key, int at, int columns, int64_t head_dim) {
    for (int c = 0; c < columns; c++) {
        floats sum = all(0.0f);
        int64_t i = 0;
        for (; i + 2 * LANES <= head_dim; i += 2 * LANES) {
            floats former, latter;
            load_two(key + i, &former, &latter);
            sum += *(floats *)&few->query[c][i] * former;
            sum += *(floats *)&few->query[c][i + LANES] * latter;
        }
        for (; i < head_dim; i += LANES) sum += *(floats *)&few->query[c][i] * load(key + i);
        few->scores[c][at] = sum_of(sum);
    }
}

/* Turns scores into shares; returns by how much what was given before shrinks. */
INLINE float share_few(struct few *few, int c, int count) {
    float *scores = few->scores[c];
    for (int j = count; j < FEW_KEYS; j++) scores[j] = -INFINITY;
    floats most = all(few->largest[c]);
    for (int j = 0; j < FEW_KEYS; j += LANES) most = larger(*(floats *)&scores[j], most);
    float top = few->largest[c];
    for (int i = 0; i < LANES; i++) top = most[i] > top ? most[i] : top;
    floats sum = all(0.0f);
    for (int j = 0; j < FEW_KEYS; j += LANES) {
        *(floats *)&scores[j] = power_of_two(*(floats *)&scores[j] - top);
        sum += *(floats *)&scores[j];
    }
    float shrink = power_of_two(all(few->largest[c] - top))[0];
    few->weight[c] = few->weight[c] * shrink + sum_of(sum);
    few->largest[c] = top;
    return shrink;
}

/* Adds what `count` keys give to `pairs` pairs of vectors of each output, from number `first` on. */
INLINE void give_pairs(struct few *few, const number *const *values, const float *shrinks, int count,
                       int64_t first, int pairs, int columns) {
    floats sums[SUMS_MAX > 2 * FEW ? SUMS_MAX : 2 * FEW];
    for (int c = 0; c < columns; c++)
        for (int v = 0; v < 2 * pairs; v++)
            sums[c * 2 * pairs + v] = *(floats *)&few->out[c][first + v * LANES] * shrinks[c];
    for (int j = 0; j < count; j++)
        for (int p = 0; p < pairs; p++) {
            floats former, latter;
            load_two(values[j] + first + 2 * LANES * p, &former, &latter);
            for (int c = 0; c < columns; c++) {
                floats *own = sums + 2 * (c * pairs + p);
                own[0] += few->scores[c][j] * former;
                own[1] += few->scores[c][j] * latter;
            }
        }
    for (int c = 0; c < columns; c++)
        for (int v = 0; v < 2 * pairs; v++)
            *(floats *)&few->out[c][first + v * LANES] = sums[c * 2 * pairs + v];
}

/* Adds it to the last vector of each output, where the numbers are no whole pairs. */
INLINE void give_last(struct few *few, const number *const *values, const float *shrinks, int count,
                      int64_t first, int columns) {
    for (int c = 0; c < columns; c++) {
        floats sum = *(floats *)&few->out[c][first] * shrinks[c];
        for (int j = 0; j < count; j++) sum += few->scores[c][j] * load(values[j] + first);
        *(floats *)&few->out[c][first] = sum;
    }
}

INLINE void give_few(struct few *few, const number *const *values, const float *shrinks, int count,
                     int columns, int64_t head_dim) {
    int fit = SUMS_MAX / (2 * columns), pairs = fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
    int64_t i = 0;
    for (; i + 2 * LANES * pairs <= head_dim; i += 2 * LANES * pairs)
        give_pairs(few, values, shrinks, count, i, pairs, columns);
    for (; i + 2 * LANES <= head_dim; i += 2 * LANES)
        give_pairs(few, values, shrinks, count, i, 1, columns);
    for (; i < head_dim; i += LANES) give_last(few, values, shrinks, count, i, columns);
}

/* Keys and values that are wanted in the next turn: pages lie too far apart for a CPU to foresee. They
   go to the second cache: the first one is full of this turn's, and pages were read half as fast. */
INLINE void fetch_few(const struct pool *pool, int64_t first, int64_t stop, int64_t head_dim) {
    for (int64_t k = first; k < stop; k++) {
        int64_t at = pool->slots[k] * head_dim;
        for (int64_t i = 0; i < head_dim; i += LINE) {
            __builtin_prefetch(pool->keys + at + i, 0, 2);
            __builtin_prefetch(pool->values + at + i, 0, 2);
        }
    }
}

INLINE void attend_few_keys(struct few *few, const struct pool *pool, int64_t first, int64_t stop,
                            int columns, int64_t head_dim) {
    const number *keys[FEW_KEYS], *values[FEW_KEYS];
    int rows = LANES / columns; /* of which one vector holds all scores */
    for (; first < stop; first += FEW_KEYS) {
        int count = stop - first < FEW_KEYS ? stop - first : FEW_KEYS, j = 0;
        int64_t next = first + FEW_KEYS;
        for (int k = 0; k < count; k++) {
            int64_t at = pool->slots[first + k] * head_dim;
            keys[k] = pool->keys + at;
            values[k] = pool->values + at;
        }
        for (; j + rows <= count; j += rows) {
            int64_t from = next + j, to = from + rows;
            fetch_few(pool, from < stop ? from : stop, to < stop ? to : stop, head_dim);
            score_some(few, keys + j, j, rows, columns, head_dim);
        }
        for (; j < count; j++) {
            fetch_few(pool, next + j, next + j < stop ? next + j + 1 : next + j, head_dim);
            score_one(few, keys[j], j, columns, head_dim);
        }
        float shrinks[FEW];
        for (int c = 0; c < columns; c++) shrinks[c] = share_few(few, c, count);
        give_few(few, values, shrinks, count, columns, head_dim);
    }
}

/* The same, by how many columns there are. */
static void attend_group(struct few *few, const struct pool *pool, int64_t first, int64_t stop,
                         int64_t head_dim) {
#define ATTEND(columns) \
    case columns: attend_few_keys(few, pool, first, stop, columns, head_dim); break
    switch (few->count) {
        ATTEND(1);
        ATTEND(2);
        ATTEND(3);
        ATTEND(4);
        ATTEND(5);
        ATTEND(6);
        ATTEND(7);
        ATTEND(8);
    }
#undef ATTEND
}
_Static_assert(FEW == 8, "each number of columns has a case");

INLINE int is_few(int64_t columns, int64_t queries, int64_t head_dim) {
    return queries == 1 && columns <= FEW && head_dim % LANES == 0;
}

/* The columns of a row's only query. */
static void attend_few(const struct row *row, const struct pool *pool, const struct column *columns,
                       int count, float scaling, int64_t head_dim) {
    struct few few;
    few.count = count;
    for (int c = 0; c < count; c++) {
        for (int64_t i = 0; i < head_dim; i++) few.plain[c][i] = widened(columns[c].query[i]) * scaling;
        memset(few.out[c], 0, sizeof(float) * head_dim);
        few.largest[c] = -1e30f;
        few.weight[c] = 0.0f;
    }
    for (int64_t group = 0; group < row->groups; group++) {
        int64_t start = row->starts[group];
        int64_t stop = after(row->places, start, row->starts[group + 1], columns[0].last_seen);
        if (start == stop) continue;
        rotate_few(&few, row->factors + group * head_dim, head_dim);
        attend_group(&few, pool, start, stop, head_dim);
    }
    for (int c = 0; c < count; c++) {
        for (int64_t i = 0; i + 2 * LANES <= head_dim; i += 2 * LANES)
            join_two((floats *)&few.out[c][i], (floats *)&few.out[c][i + LANES]);
        for (int64_t i = 0; i < head_dim; i++)
            columns[c].out[i] = rounded(few.out[c][i] / few.weight[c]);
    }
}
