/* What a layer does beside its products: attention of rows over keys that lie anywhere in the pool,
   before it, storing the keys and values of new tokens there, norms, and gates. (ADR 23, ADR 45)

   Keys come in groups, each of which was stored rotated by some distance: the queries are rotated
   to meet them, so that no key is copied. A task is a tile of the queries that read the same keys;
   threads take tasks as they are done. Scores are laid out with the queries side by side, so that a
   vector holds one number of several queries, and are kept in base 2. NaN in, NaN out.

   Each function is run by every thread of a team, with one struct for all.

   These files need GCC or Clang, nothing of torch or Python, and from `compiled_kernel.py` QUERIES, of
   a tile, HEAD_DIM_MAX, FEW, and BFLOAT16 where that is what models compute in: on a CPU with AMX or
   AVX512-BF16. */

#include "rows.h"
#ifdef BFLOAT16
#include "few_rows.h"
#include "matrix_tile.h"
#else
#include "vector_tile.h"
#endif
/* Matrix registers compute sixteen columns as fast as one. */
#if !defined BFLOAT16 || !defined __AMX_BF16__
#define HAS_FEW
#include "few_columns.h"
#endif
#include "many_quantized.h"
#include "operations.h"

/* One tile of a row's columns, from number `first` on. */
static void attend_tile(const struct layer *w, const struct row *row, int64_t kv_head,
                        int64_t first, int64_t columns_left) {
    struct column columns[QUERIES];
    int count = columns_left < QUERIES ? columns_left : QUERIES;
    for (int q = 0; q < count; q++) columns[q] = column_of(w, row, kv_head, first + q);
    int64_t start_of_head = kv_head * w->pool_head;
    struct pool pool = {w->keys + start_of_head, w->values + start_of_head, row->slots, row->places};
#ifdef HAS_FEW
    if (is_few(count, row->queries, w->head_dim)) {
        attend_few(row, &pool, columns, count, w->scaling * LOG2_E, w->head_dim);
        return;
    }
#endif
    struct tile tile;
    tile.count = count;
    take_columns(&tile, columns, w->scaling * LOG2_E, w->head_dim);
    int32_t last = columns[count - 1].last_seen;
    for (int64_t group = 0; group < row->groups; group++) {
        int64_t start = row->starts[group];
        int64_t stop = after(row->places, start, row->starts[group + 1], last);
        if (start == stop) continue;
        rotate_queries(&tile, row->factors + group * w->head_dim, w->head_dim);
        attend_keys(&tile, &pool, start, stop, w->head_dim);
    }
    give_columns(&tile, columns, w->head_dim);
}

static void attend_tasks(struct layer *w) {
    const struct row *row = w->rows;
    int64_t before = 0; /* tasks of the rows before this one */
    for (;;) {
        int64_t task = __atomic_fetch_add(&w->next_task, 1, __ATOMIC_RELAXED);
        for (;; row++) {
            if (row == w->rows + w->count) return;
            int64_t columns = row->queries * (w->heads / w->kv_heads);
            int64_t tiles = (columns + QUERIES - 1) / QUERIES, own = task - before;
            if (own < tiles * w->kv_heads) {
                int64_t first = own % tiles * QUERIES;
                attend_tile(w, row, own / tiles, first, columns - first);
                break;
            }
            before += tiles * w->kv_heads;
        }
    }
}

void attend_rows(struct layer *w) {
#ifdef BFLOAT16
    struct matrices before;
    begin_matrices(&before, SIDE, SIDE);
    attend_tasks(w);
    end_matrices(&before);
#else
    attend_tasks(w);
#endif
}

#ifdef BFLOAT16
void multiply_few(struct product *w) {
    struct matrices before;
    int64_t more = w->count > SIDE ? w->count - SIDE : SIDE;
    begin_matrices(&before, w->count < SIDE ? w->count : SIDE, more);
    multiply_tasks(w);
    end_matrices(&before);
}
#endif

#define FEW_OF_A_TILE 4 /* rows for which a tile is no faster than reading weights as they are */

/* Up to QUANTIZED_ROWS rows. */
void multiply_quantized(struct quantized *w) {
#if defined SUMS_OF_16_BITS && !defined BFLOAT16
    if (w->count > FEW_OF_A_TILE) {
        multiply_many(w);
        return;
    }
#endif
    multiply_panels(w);
}

/* The widest instructions that it was compiled for. */
const char *instructions(void) {
#if defined BFLOAT16 && defined __AMX_BF16__
    return "amx";
#elif defined BFLOAT16
    return "avx512_bf16";
#elif defined __AVX512F__
    return "avx512";
#elif defined __AVX2__
    return "avx2";
#else
    return "others";
#endif
}

#ifdef BFLOAT16
/* Outputs of one panel of weights, as `multiply_few` reads them. */
int panel_outputs(void) { return PANEL; }
#endif

/* Whether the system lets this process run it. */
int can_run(void) {
#ifdef BFLOAT16
    return can_multiply();
#else
    return 1;
#endif
}

#define TOKENS 16 /* of a task of the functions below */

/* The first token of the next task; `tokens` if there is none. */
INLINE int64_t next_token(int64_t *next_task, int64_t tokens) {
    int64_t first = __atomic_fetch_add(next_task, 1, __ATOMIC_RELAXED) * TOKENS;
    return first < tokens ? first : tokens;
}

INLINE int64_t last_token(int64_t first, int64_t tokens) {
    return first + TOKENS < tokens ? first + TOKENS : tokens;
}

/* What `token_store.py` passes: a layer's new queries, keys and values as one product gives them. */
struct tokens {
    const number *joined; /* [tokens, heads + 2 * kv_heads, head_dim] */
    const float *factors; /* [tokens, head_dim]: cosine and sine of each pair of numbers */
    const int64_t *slots; /* [tokens] */
    number *query; /* [tokens, heads, head_dim] */
    number *keys, *values; /* the pool's: [kv_heads, slots, head_dim] */
    int64_t pool_head;
    int64_t tokens, heads, kv_heads, head_dim;
    int64_t next_task;
};

static void rotate_to(number *restrict to, const number *restrict from,
                      const float *restrict factors, int64_t head_dim) {
    for (int64_t i = 0; i < head_dim; i += 2) {
        float real = widened(from[i]), imaginary = widened(from[i + 1]);
        to[i] = rounded(real * factors[i] - imaginary * factors[i + 1]);
        to[i + 1] = rounded(real * factors[i + 1] + imaginary * factors[i]);
    }
}

static void store_token(const struct tokens *w, int64_t token) {
    int64_t size = w->head_dim;
    const number *from = w->joined + token * (w->heads + 2 * w->kv_heads) * size;
    const float *factors = w->factors + token * size;
    for (int64_t head = 0; head < w->heads; head++, from += size)
        rotate_to(w->query + (token * w->heads + head) * size, from, factors, size);
    int64_t place = w->slots[token] * size;
    for (int64_t head = 0; head < w->kv_heads; head++, from += size)
        rotate_to(w->keys + head * w->pool_head + place, from, factors, size);
    for (int64_t head = 0; head < w->kv_heads; head++, from += size)
        memcpy(w->values + head * w->pool_head + place, from, sizeof(number) * size);
}

/* Rotates queries and keys to their places, and stores keys and values. */
void store_tokens(struct tokens *w) {
    for (;;) {
        int64_t first = next_token(&w->next_task, w->tokens);
        if (first == w->tokens) return;
        for (int64_t token = first; token < last_token(first, w->tokens); token++)
            store_token(w, token);
    }
}

/* What `layer_steps.py` passes: states of which some were computed anew. In each token `parts` vectors
   lie side by side, and a token begins `token_stride` numbers behind the one before. */
struct norms {
    number *states; /* [vectors / parts, parts, size] */
    const number *added; /* the same; NULL: nothing is */
    const float *weight; /* [size], times the root of size */
    number *out; /* as states, which it may be */
    int64_t vectors, parts, token_stride, size;
    float least; /* the root of size times epsilon */
    int64_t next_task;
};

/* x / sqrt(mean(x^2) + eps) is sqrt(size) x / sqrt(|x|^2 + size eps) */
static void norm_vector(const struct norms *w, int64_t vector) {
    int64_t start = vector / w->parts * w->token_stride + vector % w->parts * w->size;
    number *states = w->states + start, *out = w->out + start;
    int64_t whole = w->size / LANES * LANES;
    if (w->added) {
        const number *added = w->added + start;
        for (int64_t i = 0; i < whole; i += LANES) save(states + i, load(states + i) + load(added + i));
        for (int64_t i = whole; i < w->size; i++)
            states[i] = rounded(widened(states[i]) + widened(added[i]));
    }
    floats squares[4] = {all(0.0f), all(0.0f), all(0.0f), all(0.0f)};
    for (int64_t i = 0; i < whole; i += LANES) {
        floats own = load(states + i);
        squares[i / LANES % 4] += own * own;
    }
    float sum = w->least * w->least + sum_of(squares[0] + squares[1] + squares[2] + squares[3]);
    for (int64_t i = whole; i < w->size; i++) sum += widened(states[i]) * widened(states[i]);
    float scale = 1.0f / sqrtf(sum);
    for (int64_t i = 0; i < whole; i += LANES)
        save(out + i, load(states + i) * scale * *(const floats *)(w->weight + i));
    for (int64_t i = whole; i < w->size; i++)
        out[i] = rounded(widened(states[i]) * scale * w->weight[i]);
}

/* Adds to states what a layer gave, and norms them. */
void norm_tokens(struct norms *w) {
    for (;;) {
        int64_t first = next_token(&w->next_task, w->vectors);
        if (first == w->vectors) return;
        for (int64_t vector = first; vector < last_token(first, w->vectors); vector++)
            norm_vector(w, vector);
    }
}

/* What `layer_steps.py` passes: both halves of a gated MLP, as one product gives them. */
struct gates {
    const number *joined; /* [tokens, 2 * size] */
    number *out; /* [tokens, size] */
    int64_t tokens, size;
    int64_t next_task;
};

/* x / (1 + e^-x), whose power would overflow for x < -87. */
INLINE floats silu(floats x) {
    floats power = power_of_two(-larger(x, -x) * LOG2_E); /* e^-|x| */
    floats positive = 1.0f / (1.0f + power);
    floats numerator = larger(x, x * power);
    return numerator * positive;
}

static void gate_token(const struct gates *w, int64_t token) {
    const number *gate = w->joined + token * 2 * w->size, *up = gate + w->size;
    number *out = w->out + token * w->size;
    int64_t i = 0;
    for (; i + LANES <= w->size; i += LANES) save(out + i, silu(load(gate + i)) * load(up + i));
    for (; i < w->size; i++) {
        floats own = silu(all(widened(gate[i])));
        out[i] = rounded(own[0] * widened(up[i]));
    }
}

/* Multiplies the second half by the first one's SiLU. */
void gate_tokens(struct gates *w) {
    for (;;) {
        int64_t first = next_token(&w->next_task, w->tokens);
        if (first == w->tokens) return;
        for (int64_t token = first; token < last_token(first, w->tokens); token++)
            gate_token(w, token);
    }
}
