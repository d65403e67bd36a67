/* The matrix registers of AMX, and what fills them. (ADR 45) */

#ifndef HEDDLE_MATRICES_H
#define HEDDLE_MATRICES_H

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numbers.h"

#define SIDE 16 /* rows of a matrix register, and its columns of 4 bytes */
#define DEPTH 32 /* numbers that a product sums up at once */
_Static_assert(LANES == SIDE, "a vector is a matrix register's row");

INLINE __mmask16 first_of(int64_t count) { return count >= SIDE ? 0xffff : (1u << count) - 1; }

/* Up to 16 numbers, in the lower halves of 16 places. */
INLINE __m512i halves(const number *from, int64_t count) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_of(count), from));
}

/* The matrix registers' shape, for a thread that comes and goes: torch's is put back. */
struct matrices {
    uint8_t bytes[64];
} __attribute__((aligned(64)));

/* Registers 0 to 3 hold sums, 4 and 5 the left sides of products, 6 and 7 their right ones. Sums and
   left sides have `rows` each, those that are odd `more`. */
static void begin_matrices(struct matrices *before, int rows, int more) {
    struct matrices ours = {{1}}; /* the only palette there is */
    for (int number = 0; number < 8; number++) {
        ours.bytes[16 + 2 * number] = 64;
        ours.bytes[48 + number] = number >= 6 ? SIDE : number % 2 ? more : rows;
    }
    _tile_storeconfig(before);
    _tile_loadconfig(&ours);
}

static void end_matrices(const struct matrices *before) {
    if (before->bytes[0])
        _tile_loadconfig(before);
    else
        _tile_release();
}

/* Whether the system lets this process use matrix registers; Linux wants to be asked. */
static int can_multiply(void) {
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return !syscall(SYS_arch_prctl, REQUEST, TILE_DATA);
}

#endif
