/* Numbers and vectors of them, for the kernels of `compiled_kernel.c`. */

#ifndef HEDDLE_NUMBERS_H
#define HEDDLE_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#ifndef LANES
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#endif
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
#define INLINE static inline __attribute__((always_inline))
#define LOG2_E 1.44269504088896341f

INLINE floats all(float one) { return one - (floats){0}; }

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

/* By halves: a sum number by number waits for each. */
INLINE float sum_of(floats parts) {
#if LANES == 16 && defined __AVX512F__
    return _mm512_reduce_add_ps((__m512)parts);
#endif
    float sums[LANES];
    memcpy(sums, &parts, sizeof(sums));
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
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

/* What models compute and KV is stored in: floats, or their upper halves. */
#ifdef BFLOAT16
typedef uint16_t number;

INLINE float widened(number half) {
    uint32_t bits = (uint32_t)half << 16;
    float whole;
    memcpy(&whole, &bits, 4);
    return whole;
}

/* To the nearest, ties to even; NaN stays NaN. */
INLINE number rounded(float whole) {
    uint32_t bits;
    memcpy(&bits, &whole, 4);
    return whole != whole ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

INLINE floats load(const number *from) {
    return (floats)_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16);
}

INLINE void save(number *to, floats from) {
    _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh((__m512)from));
}
#else
typedef float number;

INLINE float widened(number from) { return from; }
INLINE number rounded(float from) { return from; }
INLINE floats load(const number *from) { return *(const floats *)from; }
INLINE void save(number *to, floats from) { *(floats *)to = from; }
#endif

#endif
