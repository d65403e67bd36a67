/* Numbers and vectors of them, for the kernels of `compiled_kernel.c`. */

#ifndef HEDDLE_NUMBERS_H
#define HEDDLE_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX__
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

/* The larger of both; `b` where either is NaN. Compilers turn the loop into one instruction, or take the
   vectors apart: GCC 12 does so for AVX-512, where attention was 2.8 times slower, and here and there
   for AVX2. */
INLINE floats larger(floats a, floats b) {
#if LANES == 16 && defined __AVX512F__
    return (floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8 && defined __AVX__
    return (floats)_mm256_max_ps((__m256)a, (__m256)b);
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

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#if __has_builtin(__builtin_shufflevector)
/* Adds halves, quarters and so on of two vectors, those of the one beside those of the other. */
#define FOLD(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if LANES == 16
#define FOLD_8(a, b) FOLD(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) \
    + FOLD(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
#define FOLD_4(a, b) FOLD(a, b, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31) \
    + FOLD(a, b, 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27)
#define FOLD_2(a, b) FOLD(a, b, 0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26, 27, 12, 13, 30, 31) \
    + FOLD(a, b, 2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29)
#define FOLD_1(a, b) FOLD(a, b, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31) \
    + FOLD(a, b, 1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30)
#else
#define FOLD_4(a, b) FOLD(a, b, 0, 1, 2, 3, 12, 13, 14, 15) + FOLD(a, b, 4, 5, 6, 7, 8, 9, 10, 11)
#define FOLD_2(a, b) FOLD(a, b, 0, 1, 10, 11, 4, 5, 14, 15) + FOLD(a, b, 2, 3, 8, 9, 6, 7, 12, 13)
#define FOLD_1(a, b) FOLD(a, b, 0, 9, 2, 11, 4, 13, 6, 15) + FOLD(a, b, 1, 8, 3, 10, 5, 12, 7, 14)
#endif
#endif

/* The sums of LANES vectors, side by side. Mutates: `parts`. */
INLINE floats sums_of(floats *parts) {
#ifndef FOLD
    floats sums;
    for (int i = 0; i < LANES; i++) sums[i] = sum_of(parts[i]);
    return sums;
#else
#ifdef FOLD_8
    for (int i = 0; i < 8; i++) parts[i] = FOLD_8(parts[i], parts[i + 8]);
#endif
    for (int i = 0; i < 4; i++) parts[i] = FOLD_4(parts[i], parts[i + 4]);
    for (int i = 0; i < 2; i++) parts[i] = FOLD_2(parts[i], parts[i + 2]);
    return FOLD_1(parts[0], parts[1]);
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

/* 2 * LANES numbers: those at even places and those at odd ones, for half the instructions of two
   vectors in order. */
INLINE void load_two(const number *from, floats *even, floats *odd) {
    __m512i pairs = _mm512_loadu_si512(from);
    *even = (floats)_mm512_slli_epi32(pairs, 16);
    *odd = (floats)_mm512_and_si512(pairs, _mm512_set1_epi32((int32_t)0xffff0000));
}

/* Brings two vectors in order into the order of `load_two`. */
INLINE void split_two(floats *former, floats *latter) {
    ints even, odd;
    for (int i = 0; i < LANES; i++) even[i] = 2 * i, odd[i] = 2 * i + 1;
    __m512 first = (__m512)*former, second = (__m512)*latter;
    *former = (floats)_mm512_permutex2var_ps(first, (__m512i)even, second);
    *latter = (floats)_mm512_permutex2var_ps(first, (__m512i)odd, second);
}

/* And back. */
INLINE void join_two(floats *former, floats *latter) {
    ints low, high;
    for (int i = 0; i < LANES; i++) {
        low[i] = i / 2 + i % 2 * LANES;
        high[i] = low[i] + LANES / 2;
    }
    __m512 even = (__m512)*former, odd = (__m512)*latter;
    *former = (floats)_mm512_permutex2var_ps(even, (__m512i)low, odd);
    *latter = (floats)_mm512_permutex2var_ps(even, (__m512i)high, odd);
}
#else
typedef float number;

INLINE float widened(number from) { return from; }
INLINE number rounded(float from) { return from; }
INLINE floats load(const number *from) { return *(const floats *)from; }
INLINE void save(number *to, floats from) { *(floats *)to = from; }

/* Floats have no better order than their own. */
INLINE void load_two(const number *from, floats *former, floats *latter) {
    *former = load(from);
    *latter = load(from + LANES);
}
INLINE void split_two(floats *former, floats *latter) { (void)former, (void)latter; }
INLINE void join_two(floats *former, floats *latter) { (void)former, (void)latter; }
#endif

#endif
