/* Operations one after another, by one team of threads in one call. (ADR 62)

   A step of few tokens is hundreds of short operations: what it costs to start a team for each of them,
   and to describe it anew, is a third of such a step. */

#ifndef HEDDLE_OPERATIONS_H
#define HEDDLE_OPERATIONS_H

#include <stdint.h>
#include <string.h>

/* What `operations.py` passes. */
struct operation {
    void (*run)(void *work); /* by every thread */
    void *work;
    int64_t *counters; /* those of `work`, by which threads take tasks; zero before and after */
    int64_t counters_count;
};
struct operations {
    const struct operation *list;
    int64_t count;
    void (*meet)(void); /* returns once every thread of the team has called it */
    int64_t arrived; /* threads; zero before and after */
};

void run_operations(struct operations *w) {
    int is_first = !__atomic_fetch_add(&w->arrived, 1, __ATOMIC_RELAXED);
    for (int64_t i = 0; i < w->count; i++) {
        const struct operation *own = w->list + i;
        own->run(own->work);
        w->meet();
        if (is_first) memset(own->counters, 0, own->counters_count * sizeof(int64_t));
    }
    if (is_first) w->arrived = 0;
}

#endif
