/* SIMD lanes: numbers that a processor works on at once. Rows of matrices are W numbers long, W a multiple of LANE.

   VEC(p) stands for LANE numbers from p on. With LANE 1 this is plain C99; otherwise it is the vector extension of GCC and
   Clang, as wide as the registers: one that is wider than they are is slower than none. A number in front of VEC
   multiplies all of them. Loops run to N and may read up to LANE - 1 numbers behind it. */

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* loops of known, small length want to be unrolled */
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline)) /* into its caller, where sizes and choices are known */
#else
#define INLINE static
#endif

#if defined(__clang__)
#define VECTORIZE _Pragma("clang loop vectorize(enable)") /* the loop that follows; GCC does it unasked */
#else
#define VECTORIZE
#endif

#define SIZE(n) ((n) > 0 ? (n) : 1)
#define N (NX + NT)

#ifndef LANE
#if N > 2 && defined(__AVX__)
#define LANE 4
#elif N > 1 && (defined(__SSE2__) || defined(__ARM_NEON))
#define LANE 2
#else
#define LANE 1
#endif
#endif

#define ROUND_UP(n, lane) (((n) + (lane) - 1) / (lane) * (lane))
#define W ROUND_UP(N, LANE)

#if LANE > 1
typedef double dyn_vector __attribute__((vector_size(8 * LANE), aligned(8), may_alias));
#define ZERO_VEC ((dyn_vector){0})
#else
typedef double dyn_vector;
#define ZERO_VEC 0.0
#endif

#define VEC(p) (*(dyn_vector *)(p))
#define CONST_VEC(p) (*(const dyn_vector *)(p))

/* Four single numbers at once: written one by one, lanes that read them would have to wait. */
#if LANE == 4
#define STORE4(to, a, b, c, d) VEC(to) = (dyn_vector){a, b, c, d}
#elif LANE == 2
#define STORE4(to, a, b, c, d) VEC(to) = (dyn_vector){a, b}, VEC((to) + 2) = (dyn_vector){c, d}
#else
#define STORE4(to, a, b, c, d) (to)[0] = a, (to)[1] = b, (to)[2] = c, (to)[3] = d
#endif
