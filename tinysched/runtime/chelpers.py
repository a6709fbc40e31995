"""The small functions that generated CUDA C calls: each is put in front of a program that names it.

In: the text of kernels. Out: the text of the helpers that it needs, dependencies first. Nothing is included: the same
text compiles with NVRTC without any header, and with a C++ compiler behind a shim.

>>> print(helpers_for("p0[i] = maximum(p1[i], 0.0f);"))
// the larger of two; NaN if one is
template <class T> __device__ inline T maximum(T a, T b) { return a > b || a != a ? a : b; }
"""

from __future__ import annotations

import re
from typing import Final

HELPERS: Final[dict[str, str]] = {
    "INF": """#define INF __int_as_float(0x7f800000)""",
    "QNAN": """#define QNAN __int_as_float(0x7fc00000)""",
    "vec": """
// as many elements as one access of up to 128 bits takes
template <class T, int N> struct alignas(sizeof(T) * N) vec { T at[N]; };""",
    "load": """
template <int N, class T> __device__ inline vec<T, N> load(const T* p) { return *(const vec<T, N>*)p; }""",
    "store": """
template <int N, class T> __device__ inline void store(T* p, vec<T, N> v) { *(vec<T, N>*)p = v; }""",
    "half_bits": """
#ifdef __CUDA_ARCH__
__device__ inline unsigned short half_bits(float x) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
__device__ inline float half_value(unsigned short h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
#endif""",
    "half": """
// 16 bits in memory, computed with as float
struct half {
    unsigned short bits;
    half() = default;
    __device__ half(float x) : bits(half_bits(x)) {}
    __device__ operator float() const { return half_value(bits); }
};""",
    "bfloat16": """
// the upper half of a float, rounded to even
struct bfloat16 {
    unsigned short bits;
    bfloat16() = default;
    __device__ bfloat16(float x) {
        unsigned u = __float_as_uint(x);
        bits = x != x ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
    }
    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};""",
    "maximum": """
// the larger of two; NaN if one is
template <class T> __device__ inline T maximum(T a, T b) { return a > b || a != a ? a : b; }""",
    "cdiv": """
// division of integers that truncates; by zero it is 0
template <class T> __device__ inline T cdiv(T a, T b) { return b == 0 ? 0 : b == T(-1) ? T(0) - a : a / b; }""",
    "cmod": """
// the remainder with the sign of a; by zero it is 0
template <class T> __device__ inline T cmod(T a, T b) { return b == 0 || b == T(-1) ? 0 : a % b; }""",
    "floordiv": """
// division of integers that rounds down; by zero it is 0
template <class T> __device__ inline T floordiv(T a, T b) {
    return cdiv(a, b) - (cmod(a, b) != 0 && (a < 0) != (b < 0));
}""",
    "floormod": """
// the remainder with the sign of b; by zero it is 0
template <class T> __device__ inline T floormod(T a, T b) {
    T m = cmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}""",
    "power": """
// a to the b of integers; to a negative power it truncates
template <class T> __device__ inline T power(T a, T b) {
    if (b < 0) return a == 1 ? 1 : a == T(-1) ? (b % 2 ? T(-1) : 1) : 0;
    T x = 1;
    for (; b; b /= 2, a *= a) x *= b % 2 ? a : 1;
    return x;
}""",
    "shl": """
// shifts by as many bits as there are, or more, leave nothing
template <class T> __device__ inline T shl(T a, T b) { return b < 0 || b >= 8 * sizeof(T) ? 0 : a << b; }""",
    "shr": """
template <class T> __device__ inline T shr(T a, T b) {
    return b < 0 || b >= 8 * sizeof(T) ? (a < 0 ? T(-1) : 0) : a >> b;
}""",
    "bits_as": """
template <class To, class From> __device__ inline To bits_as(From x) {
    union { From from; To to; } u = {x};
    return u.to;
}""",
    "threefry": """
// Threefry-2x32 with 20 rounds: two 32-bit words in, two out, the low word first
__device__ inline unsigned long long threefry(unsigned long long x, unsigned long long key) {
    const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    unsigned low = x, high = x >> 32, keys[3] = {(unsigned)key, (unsigned)(key >> 32), 0};
    keys[2] = keys[0] ^ keys[1] ^ 0x1bd11bdau;
    low += keys[0], high += keys[1];
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            int turn = turns[group % 2][i];
            low += high, high = (high << turn | high >> (32 - turn)) ^ low;
        }
        low += keys[(group + 1) % 3], high += keys[(group + 2) % 3] + group + 1;
    }
    return (unsigned long long)high << 32 | low;
}""",
    "exists": """
// whether there is an element i; if not, the host is told
__device__ inline bool exists(long long i, long long size, int* fault) {
    bool there = 0 <= i && i < size;
    if (!there) *(volatile int*)fault = 1;
    return there;
}""",
    "within": """
__device__ inline long long within(long long i, long long size, int* fault) { return exists(i, size, fault) ? i : 0; }""",
    "Add": "struct Add { template <class T> __device__ static T of(T a, T b) { return a + b; } };",
    "Mul": "struct Mul { template <class T> __device__ static T of(T a, T b) { return a * b; } };",
    "Max": "struct Max { template <class T> __device__ static T of(T a, T b) { return maximum(a, b); } };",
    "across_warp": """
// every lane of a warp gets the reduction of all lanes' values
template <class Op, class T> __device__ inline T across_warp(T x) {
    for (int step = 16; step > 0; step /= 2) {
        T y = __shfl_xor_sync(0xffffffffu, x, step);
        x = Op::of(x, y);
    }
    return x;
}""",
    "across_block": """
// every thread of a block gets the reduction of all threads' values
template <class Op, class T> __device__ inline T across_block(T x) {
    __shared__ T of_warp[32];
    x = across_warp<Op>(x);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = of_warp[0];
    for (int w = 1; w < blockDim.x / 32; w++) {
        T y = of_warp[w];
        x = Op::of(x, y);
    }
    __syncthreads();  // before the next call writes there
    return x;
}""",
}
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def helpers_for(text: str) -> str:
    """The helpers that a text names, and those that these name, in an order in which each comes after its own."""
    found: dict[str, str] = {}

    def add(words: set[str]) -> None:
        for name in HELPERS:
            if name in words and name not in found:
                add(set(_WORD.findall(HELPERS[name])) - {name})
                found[name] = HELPERS[name].strip("\n")

    add(set(_WORD.findall(re.sub(r"//.*", "", text))))
    return "\n".join(found.values())
