/* Attention of a few columns, a row that decodes: vectors hold numbers of one head. (ADR 45)

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

/* Scores of `rows` keys, whose sums don't wait for one another. */
INLINE void score_few(struct few *few, const float *const *keys, int rows, int first,
                      int64_t head_dim) {
    for (int c = 0; c < few->count; c++) {
        floats sums[AT_ONCE];
        for (int r = 0; r < rows; r++) sums[r] = all(0.0f);
        for (int64_t i = 0; i < head_dim; i += LANES) {
            floats own = *(floats *)&few->query[c][i];
            for (int r = 0; r < rows; r++) sums[r] += own * *(const floats *)(keys[r] + i);
        }
        for (int r = 0; r < rows; r++) few->scores[c][first + r] = sum_of(sums[r]);
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

/* Adds what `count` keys give to `parts` vectors of a column's output. */
INLINE void give_few(float *out, const float *const *values, int64_t first, const float *shares,
                     float shrink, int count, int parts) {
    floats sums[AT_ONCE];
    for (int p = 0; p < parts; p++) sums[p] = *(floats *)(out + first + p * LANES) * shrink;
    for (int j = 0; j < count; j++)
        for (int p = 0; p < parts; p++)
            sums[p] += shares[j] * *(const floats *)(values[j] + first + p * LANES);
    for (int p = 0; p < parts; p++) *(floats *)(out + first + p * LANES) = sums[p];
}

static void attend_few_keys(struct few *few, const struct pool *pool, int64_t first, int64_t stop,
                            int64_t head_dim) {
    const float *keys[FEW_KEYS], *values[FEW_KEYS];
    for (; first < stop; first += FEW_KEYS) {
        int count = stop - first < FEW_KEYS ? stop - first : FEW_KEYS, j = 0;
        for (int k = 0; k < count; k++) {
            int64_t at = pool->slots[first + k] * head_dim;
            keys[k] = pool->keys + at;
            values[k] = pool->values + at;
        }
        for (; j + AT_ONCE <= count; j += AT_ONCE) score_few(few, keys + j, AT_ONCE, j, head_dim);
        for (; j < count; j++) score_few(few, keys + j, 1, j, head_dim);
        for (int c = 0; c < few->count; c++) {
            float shrink = share_few(few, c, count);
            int64_t i = 0;
            for (; i + AT_ONCE * LANES <= head_dim; i += AT_ONCE * LANES)
                give_few(few->out[c], values, i, few->scores[c], shrink, count, AT_ONCE);
            for (; i + 4 * LANES <= head_dim; i += 4 * LANES)
                give_few(few->out[c], values, i, few->scores[c], shrink, count, 4);
            for (; i < head_dim; i += LANES)
                give_few(few->out[c], values, i, few->scores[c], shrink, count, 1);
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
        for (int64_t i = 0; i < head_dim; i++) few.plain[c][i] = columns[c].query[i] * scaling;
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
        for (int64_t i = 0; i < head_dim; i++) columns[c].out[i] = few.out[c][i] / few.weight[c];
}
