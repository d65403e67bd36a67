/* Attention of a few columns, a row that decodes: vectors hold numbers of one head. (ADR 45, ADR 61)

   A tile would compute columns that nobody wants, and one column reads each key once: so what
   counts is that keys and values come from memory without a pause. */

#include "rows.h"

#define FEW_KEYS 64 /* whose scores are kept at once */
#define AT_ONCE 8 /* sums under way */

struct few {
    float plain[FEW][HEAD_DIM_MAX]; /* its queries, scaled */
    float query[FEW][HEAD_DIM_MAX]; /* rotated to meet a group's keys */
    float out[FEW][HEAD_DIM_MAX];
    float scores[FEW][FEW_KEYS];
    float largest[FEW], weight[FEW]; /* score so far, and sum of shares beside it */
    int count;
} __attribute__((aligned(64)));

static void rotate_few(struct few *few, const float *factors, int64_t head_dim) {
    for (int c = 0; c < few->count; c++)
        for (int64_t i = 0; i < head_dim; i += 2) {
            float real = few->plain[c][i], imaginary = few->plain[c][i + 1];
            few->query[c][i] = real * factors[i] - imaginary * factors[i + 1];
            few->query[c][i + 1] = real * factors[i + 1] + imaginary * factors[i];
        }
}

/* Scores of LANES keys, side by side. */
INLINE void score_lanes(struct few *few, const number *const *keys, int first, int64_t head_dim) {
    for (int c = 0; c < few->count; c++) {
        floats sums[LANES];
        for (int r = 0; r < LANES; r++) sums[r] = all(0.0f);
        for (int64_t i = 0; i < head_dim; i += LANES) {
            floats own = *(floats *)&few->query[c][i];
            for (int r = 0; r < LANES; r++) sums[r] += own * load(keys[r] + i);
        }
        *(floats *)&few->scores[c][first] = sums_of(sums);
    }
}

/* The score of one key. */
INLINE void score_one(struct few *few, const number *key, int at, int64_t head_dim) {
    for (int c = 0; c < few->count; c++) {
        floats sum = all(0.0f);
        for (int64_t i = 0; i < head_dim; i += LANES)
            sum += *(floats *)&few->query[c][i] * load(key + i);
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

/* Adds what `count` keys give to `parts` vectors of a column's output; `ways` of them at a time, so
   that no sum waits for the one before it. */
INLINE void give_few(float *out, const number *const *values, int64_t first, const float *shares,
                     float shrink, int count, int parts, int ways) {
    floats sums[AT_ONCE];
    for (int p = 0; p < parts; p++) sums[p] = *(floats *)(out + first + p * LANES) * shrink;
    for (int p = parts; p < parts * ways; p++) sums[p] = all(0.0f);
    int j = 0;
    for (; j + ways <= count; j += ways)
        for (int way = 0; way < ways; way++)
            for (int p = 0; p < parts; p++)
                sums[way * parts + p] +=
                    shares[j + way] * load(values[j + way] + first + p * LANES);
    for (; j < count; j++)
        for (int p = 0; p < parts; p++)
            sums[p] += shares[j] * load(values[j] + first + p * LANES);
    for (int way = 1; way < ways; way++)
        for (int p = 0; p < parts; p++) sums[p] += sums[way * parts + p];
    for (int p = 0; p < parts; p++) *(floats *)(out + first + p * LANES) = sums[p];
}

/* Keys and values that are wanted in the next turn: pages lie too far apart for a CPU to foresee. */
INLINE void fetch_few(const struct pool *pool, int64_t first, int64_t stop, int64_t head_dim) {
    for (int64_t k = first; k < stop; k++) {
        int64_t at = pool->slots[k] * head_dim;
        for (int64_t i = 0; i < head_dim; i += LINE) {
            __builtin_prefetch(pool->keys + at + i);
            __builtin_prefetch(pool->values + at + i);
        }
    }
}

static void attend_few_keys(struct few *few, const struct pool *pool, int64_t first, int64_t stop,
                            int64_t head_dim) {
    const number *keys[FEW_KEYS], *values[FEW_KEYS];
    for (; first < stop; first += FEW_KEYS) {
        int count = stop - first < FEW_KEYS ? stop - first : FEW_KEYS, j = 0;
        int64_t next = first + FEW_KEYS;
        for (int k = 0; k < count; k++) {
            int64_t at = pool->slots[first + k] * head_dim;
            keys[k] = pool->keys + at;
            values[k] = pool->values + at;
        }
        for (; j + LANES <= count; j += LANES) {
            int64_t from = next + j, to = from + LANES;
            fetch_few(pool, from < stop ? from : stop, to < stop ? to : stop, head_dim);
            score_lanes(few, keys + j, j, head_dim);
        }
        for (; j < count; j++) score_one(few, keys[j], j, head_dim);
        for (int c = 0; c < few->count; c++) {
            float shrink = share_few(few, c, count);
            float *out = few->out[c], *shares = few->scores[c];
            int64_t i = 0;
            for (; i + 8 * LANES <= head_dim; i += 8 * LANES)
                give_few(out, values, i, shares, shrink, count, 8, 1);
            for (; i + 4 * LANES <= head_dim; i += 4 * LANES)
                give_few(out, values, i, shares, shrink, count, 4, 2);
            for (; i + 2 * LANES <= head_dim; i += 2 * LANES)
                give_few(out, values, i, shares, shrink, count, 2, 4);
            for (; i < head_dim; i += LANES)
                give_few(out, values, i, shares, shrink, count, 1, 8);
        }
    }
}

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
        attend_few_keys(&few, pool, start, stop, head_dim);
    }
    for (int c = 0; c < count; c++)
        for (int64_t i = 0; i < head_dim; i++)
            columns[c].out[i] = rounded(few.out[c][i] / few.weight[c]);
}
