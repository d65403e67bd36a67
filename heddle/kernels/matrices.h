/* Products of bfloat16: by the matrix registers of AMX, else by vectors that sum up pairs
   (AVX512-BF16). What both multiply lies alike. (ADR 45, ADR 61) */

#ifndef HEDDLE_MATRICES_H
#define HEDDLE_MATRICES_H

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numbers.h"

#define SIDE 16 /* rows of a matrix register, and its columns of 4 bytes: those of a vector */
#define DEPTH 32 /* numbers that a product of matrix registers sums up at once */
_Static_assert(LANES == SIDE, "a vector is a matrix register's row");

INLINE __mmask16 first_of(int64_t count) { return count >= SIDE ? 0xffff : (1u << count) - 1; }

/* Up to 16 numbers, in the lower halves of 16 places. */
INLINE __m512i halves(const number *from, int64_t count) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_of(count), from));
}

#ifdef __AMX_BF16__
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
#else
#define ROWS_AT_ONCE 8
#define VECTORS_AT_ONCE 4

/* Vectors need no preparation, and no leave. */
struct matrices {
    char nothing;
};
INLINE void begin_matrices(struct matrices *before, int rows, int more) {
    (void)before, (void)rows, (void)more;
}
INLINE void end_matrices(const struct matrices *before) { (void)before; }
static int can_multiply(void) { return 1; }

/* `rows` rows times vectors of interleaved numbers, side by side. The sums over `depth` numbers go to
   [rows, out_row], on top of what stands there where it `adds`. They stay in registers: at most 16 of
   them, which are enough to hide what one product takes. One load of `right` serves all rows; what
   lies `ahead` bytes behind it is fetched, 0: nothing. */
INLINE void multiply_pairs(int rows, int vectors, const number *left, int64_t left_row,
                           const void *right, int64_t right_bytes, int64_t depth, float *out,
                           int64_t out_row, int adds, int64_t ahead) {
    __m512 sums[ROWS_AT_ONCE][VECTORS_AT_ONCE];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sums[r][v] = adds ? _mm512_loadu_ps(out + r * out_row + v * SIDE) : _mm512_setzero_ps();
    const char *next = right;
    for (int64_t i = 0; i < depth; i += 2, next += right_bytes) {
        __m512bh both[VECTORS_AT_ONCE];
        for (int v = 0; v < vectors; v++) {
            if (ahead) _mm_prefetch(next + 64 * v + ahead, _MM_HINT_T0);
            both[v] = (__m512bh)_mm512_loadu_si512(next + 64 * v);
        }
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, left + r * left_row + i, sizeof(pair));
            __m512bh one = (__m512bh)_mm512_set1_epi32(pair);
            for (int v = 0; v < vectors; v++) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], one, both[v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) _mm512_storeu_ps(out + r * out_row + v * SIDE, sums[r][v]);
}
#endif

#endif
