/* What the kernels of `compiled_kernel.c` work on, as Python passes it: with the same fields in the
   same order as there. */

#ifndef HEDDLE_ROWS_H
#define HEDDLE_ROWS_H

#include "numbers.h"

#define LINE (64 / (int64_t)sizeof(number)) /* numbers of a cache line */

/* One row of a step: `RowWork`. */
struct row {
    int64_t first, queries; /* of the step's */
    const int32_t *last_seen; /* [queries], ascending: the last place that each query sees */
    int64_t groups;
    const int64_t *starts; /* [groups + 1]: keys [starts[g], starts[g + 1]) are a group's */
    const int32_t *slots, *places; /* [keys]; places ascend in each group */
    const float *factors; /* [groups, head_dim]: cosine and sine of each pair of numbers */
};

/* One layer of a step: `LayerWork`. */
struct layer {
    const number *query; /* [heads, queries, head_dim] */
    int64_t query_head, query_row; /* strides */
    const number *keys, *values; /* the pool's: [kv_heads, slots, head_dim] */
    int64_t pool_head;
    number *out; /* [queries, heads, head_dim] */
    const struct row *rows;
    int64_t count, heads, kv_heads, head_dim;
    float scaling;
    int64_t next_task;
};

/* A tile is made of columns: the queries that read the same keys, those of all heads that share a KV
   head, side by side. */
struct column {
    const number *query;
    number *out;
    int32_t last_seen;
};

INLINE struct column column_of(const struct layer *w, const struct row *row, int64_t kv_head,
                               int64_t number) {
    int64_t group = w->heads / w->kv_heads;
    int64_t query = number / group, head = kv_head * group + number % group;
    return (struct column){
        w->query + head * w->query_head + (row->first + query) * w->query_row,
        w->out + ((row->first + query) * w->heads + head) * w->head_dim,
        row->last_seen[query],
    };
}

/* Where a row's keys of one head lie. */
struct pool {
    const number *keys, *values; /* [slots, head_dim] */
    const int32_t *slots, *places;
};

/* The first of keys [first, stop) that stands after a place; `stop` if none does. */
INLINE int64_t after(const int32_t *places, int64_t first, int64_t stop, int32_t place) {
    while (first < stop) {
        int64_t middle = first + (stop - first) / 2;
        if (places[middle] > place)
            stop = middle;
        else
            first = middle + 1;
    }
    return stop;
}

#endif
