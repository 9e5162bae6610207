/* Values of compiled programs: big-endian loads and stores, signed and saturating arithmetic, integers beyond 128 bits.
 *
 * Every P4 value is kept as an unsigned pattern whose bits above its width are zero, also int<W> (two's complement). Up to 128
 * bits it is a native integer; beyond, a struct of 64-bit words, least significant first, one type per number of words
 * (P4_DEFINE_WIDE). All helpers are static inline, widths and offsets are constants in nearly every call, and the compiler
 * folds the loops and branches over them.
 */
#ifndef P4RT_VALUES_H
#define P4RT_VALUES_H
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>

typedef unsigned __int128 p4_u128;
typedef __int128 p4_i128;
#define P4_U128(hi, lo) (((p4_u128)(hi) << 64) | (uint64_t)(lo))
#define P4_UNUSED __attribute__((unused))

/* A pointer to stack.at[index], or to what stands beyond the stack's end. */
#define P4_AT(stack, size, index, beyond) \
    ({ const uint64_t p4_i = (index); p4_i < (size) ? &(stack).at[p4_i] : &(beyond); })

/* A varbit: its current length in bits, and its bytes as on the wire (bit 0 is the most significant bit of the first byte). */
#define P4_DEFINE_VARBIT(bytes) typedef struct { uint32_t bits; uint8_t data[bytes]; } p4_varbit_##bytes

/* ---- bytes on the wire ----------------------------------------------------------------------------------------------- */

/* Load n (1..8) bytes, most significant first. */
static inline uint64_t p4_load_be(const uint8_t *p, unsigned n) {
    uint16_t h; uint32_t w; uint64_t d;
    switch (n) {
    case 1: return p[0];
    case 2: memcpy(&h, p, 2); return __builtin_bswap16(h);
    case 3: memcpy(&h, p, 2); return (uint64_t)__builtin_bswap16(h) << 8 | p[2];
    case 4: memcpy(&w, p, 4); return __builtin_bswap32(w);
    case 5: memcpy(&w, p, 4); return (uint64_t)__builtin_bswap32(w) << 8 | p[4];
    case 6: memcpy(&w, p, 4); memcpy(&h, p + 4, 2); return (uint64_t)__builtin_bswap32(w) << 16 | __builtin_bswap16(h);
    case 7: memcpy(&w, p, 4); memcpy(&h, p + 4, 2); return ((uint64_t)__builtin_bswap32(w) << 16 | __builtin_bswap16(h)) << 8 | p[6];
    default: memcpy(&d, p, 8); return __builtin_bswap64(d);
    }
}

/* Store the n (1..8) low bytes of v, most significant first. */
static inline void p4_store_be(uint8_t *p, uint64_t v, unsigned n) {
    uint16_t h; uint32_t w; uint64_t d;
    switch (n) {
    case 1: p[0] = (uint8_t)v; break;
    case 2: h = __builtin_bswap16((uint16_t)v); memcpy(p, &h, 2); break;
    case 3: h = __builtin_bswap16((uint16_t)(v >> 8)); memcpy(p, &h, 2); p[2] = (uint8_t)v; break;
    case 4: w = __builtin_bswap32((uint32_t)v); memcpy(p, &w, 4); break;
    case 5: w = __builtin_bswap32((uint32_t)(v >> 8)); memcpy(p, &w, 4); p[4] = (uint8_t)v; break;
    case 6: w = __builtin_bswap32((uint32_t)(v >> 16)); memcpy(p, &w, 4); h = __builtin_bswap16((uint16_t)v); memcpy(p + 4, &h, 2); break;
    case 7:
        w = __builtin_bswap32((uint32_t)(v >> 24)); memcpy(p, &w, 4);
        h = __builtin_bswap16((uint16_t)(v >> 8)); memcpy(p + 4, &h, 2); p[6] = (uint8_t)v;
        break;
    default: d = __builtin_bswap64(v); memcpy(p, &d, 8);
    }
}

/* Copy n bits from bit `from_bit` of src to bit `to_bit` of dst; bit 0 is the top bit of the first byte; other bits stay. */
static P4_UNUSED void p4_copy_bits(uint8_t *dst, uint32_t to_bit, const uint8_t *src, uint32_t from_bit, uint32_t n) {
    dst += to_bit >> 3; src += from_bit >> 3; to_bit &= 7; from_bit &= 7;
    if (!to_bit && !from_bit) {
        memcpy(dst, src, n >> 3); dst += n >> 3; src += n >> 3; n &= 7;
    }
    for (uint32_t i = 0; i < n; i++, to_bit++, from_bit++) {
        uint8_t mask = (uint8_t)(0x80u >> (to_bit & 7));
        bool bit = src[from_bit >> 3] >> (7 - (from_bit & 7)) & 1;
        dst[to_bit >> 3] = (uint8_t)(bit ? dst[to_bit >> 3] | mask : dst[to_bit >> 3] & ~mask);
    }
}

/* Tell whether two varbits are equal: in length and in every bit. */
static P4_UNUSED bool p4_equal_bits(const uint8_t *a, uint32_t a_bits, const uint8_t *b, uint32_t b_bits) {
    if (a_bits != b_bits || memcmp(a, b, a_bits >> 3)) return false;
    return !(a_bits & 7) || !((a[a_bits >> 3] ^ b[a_bits >> 3]) >> (8 - (a_bits & 7)));
}

/* A byte string that grows bit by bit: field lists with a varbit or with headers that may be absent. */
struct p4_bit_writer { uint8_t *data; uint32_t bits; };

static P4_UNUSED void p4_put_bytes(struct p4_bit_writer *to, const uint8_t *p, uint32_t bits) {
    uint32_t first = (to->bits + 7) >> 3, end = (to->bits + bits + 7) >> 3;   /* the bytes that begin here start from zero */
    memset(to->data + first, 0, end - first);
    p4_copy_bits(to->data, to->bits, p, 0, bits);
    to->bits += bits;
}


/* ---- integers up to 128 bits ----------------------------------------------------------------------------------------- */

/* A value of `width` bits as a native signed integer. */
static inline int64_t p4_signed64(uint64_t v, unsigned width) { return (int64_t)(v << (64 - width)) >> (64 - width); }
static inline p4_i128 p4_signed128(p4_u128 v, unsigned width) { return (p4_i128)(v << (128 - width)) >> (128 - width); }

/* Shifts by any amount; the caller masks the result. The right shifts of signed values shift in the sign. */
static inline uint32_t p4_shl32(uint32_t v, uint64_t n) { return n < 32 ? v << n : 0; }
static inline uint64_t p4_shl64(uint64_t v, uint64_t n) { return n < 64 ? v << n : 0; }
static inline p4_u128 p4_shl128(p4_u128 v, uint64_t n) { return n < 128 ? v << n : 0; }
static inline uint32_t p4_shr32(uint32_t v, uint64_t n) { return n < 32 ? v >> n : 0; }
static inline uint64_t p4_shr64(uint64_t v, uint64_t n) { return n < 64 ? v >> n : 0; }
static inline p4_u128 p4_shr128(p4_u128 v, uint64_t n) { return n < 128 ? v >> n : 0; }
static inline uint64_t p4_sar64(uint64_t v, uint64_t n, unsigned width) { return (uint64_t)(p4_signed64(v, width) >> (n < 63 ? n : 63)); }
static inline p4_u128 p4_sar128(p4_u128 v, uint64_t n, unsigned width) { return (p4_u128)(p4_signed128(v, width) >> (n < 127 ? n : 127)); }
static inline uint64_t p4_amount128(p4_u128 n) { return n >> 64 ? UINT64_MAX : (uint64_t)n; }

/* Division and remainder; by zero they give 0. */
static inline uint32_t p4_div32(uint32_t a, uint32_t b) { return b ? a / b : 0; }
static inline uint64_t p4_div64(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline p4_u128 p4_div128(p4_u128 a, p4_u128 b) { return b ? a / b : 0; }
static inline uint32_t p4_mod32(uint32_t a, uint32_t b) { return b ? a % b : 0; }
static inline uint64_t p4_mod64(uint64_t a, uint64_t b) { return b ? a % b : 0; }
static inline p4_u128 p4_mod128(p4_u128 a, p4_u128 b) { return b ? a % b : 0; }

/* Saturating arithmetic; max is the largest value of the width. */
static inline uint64_t p4_sat_add64(uint64_t a, uint64_t b, uint64_t max) { uint64_t s; return __builtin_add_overflow(a, b, &s) || s > max ? max : s; }
static inline p4_u128 p4_sat_add128(p4_u128 a, p4_u128 b, p4_u128 max) { p4_u128 s; return __builtin_add_overflow(a, b, &s) || s > max ? max : s; }
static inline uint64_t p4_sat_sub64(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static inline p4_u128 p4_sat_sub128(p4_u128 a, p4_u128 b) { return a > b ? a - b : 0; }
/* Clamp an exact sum or difference of two width-bit signed values, given with its overflow out of 128 bits. */
static inline p4_u128 p4_sat_signed(p4_i128 s, bool overflow, bool negative, unsigned width) {
    p4_i128 max = (p4_i128)(((p4_u128)1 << (width - 1)) - 1), min = -max - 1;
    if (overflow) return (p4_u128)(negative ? min : max);
    return (p4_u128)(s > max ? max : s < min ? min : s);
}
static inline p4_u128 p4_sat_adds(p4_u128 a, p4_u128 b, unsigned width) {
    p4_i128 x = p4_signed128(a, width), y = p4_signed128(b, width), s;
    bool overflow = __builtin_add_overflow(x, y, &s);
    return p4_sat_signed(s, overflow, x < 0, width);
}
static inline p4_u128 p4_sat_subs(p4_u128 a, p4_u128 b, unsigned width) {
    p4_i128 x = p4_signed128(a, width), y = p4_signed128(b, width), s;
    bool overflow = __builtin_sub_overflow(x, y, &s);
    return p4_sat_signed(s, overflow, x < 0, width);
}

/* ---- word arrays: what wide integers are made of --------------------------------------------------------------------- */

static inline uint64_t p4_top_mask(unsigned width) { return width & 63 ? UINT64_MAX >> (64 - (width & 63)) : UINT64_MAX; }

/* The two words of a native integer beyond 64 bits. */
struct p4_pair { uint64_t w[2]; };
static inline struct p4_pair p4_split(p4_u128 v) { return (struct p4_pair){{(uint64_t)v, (uint64_t)(v >> 64)}}; }

/* 64 bits of a word array from bit `lo` on; zeros beyond its end. */
static inline uint64_t p4_words_at(const uint64_t *w, unsigned n, uint64_t lo) {
    uint64_t i = lo >> 6; unsigned s = lo & 63;
    if (i >= n) return 0;
    uint64_t v = w[i] >> s;
    if (s && i + 1 < n) v |= w[i + 1] << (64 - s);
    return v;
}
static inline p4_u128 p4_words_at128(const uint64_t *w, unsigned n, uint64_t lo) {
    return P4_U128(p4_words_at(w, n, lo + 64), p4_words_at(w, n, lo));
}

static inline void p4_words_shl(uint64_t *r, const uint64_t *a, unsigned n, uint64_t by) {
    uint64_t skip = by >> 6; unsigned s = by & 63;
    for (unsigned i = n; i-- > 0;) {
        uint64_t v = 0;
        if (i >= skip) {
            v = a[i - skip] << s;
            if (s && i > skip) v |= a[i - skip - 1] >> (64 - s);
        }
        r[i] = v;
    }
}

static inline int p4_words_cmp(const uint64_t *a, const uint64_t *b, unsigned n) {
    for (unsigned i = n; i-- > 0;) if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

static inline bool p4_words_bit(const uint64_t *a, unsigned bit) { return a[bit >> 6] >> (bit & 63) & 1; }

/* Set bits lo .. lo+width-1 of r to the low bits of v (m words). */
static inline void p4_words_insert(uint64_t *r, unsigned lo, unsigned width, const uint64_t *v, unsigned m) {
    for (unsigned done = 0; done < width;) {
        unsigned at = lo + done, s = at & 63, take = 64 - s;
        if (take > width - done) take = width - done;
        uint64_t mask = (take == 64 ? UINT64_MAX : ((uint64_t)1 << take) - 1) << s;
        r[at >> 6] = (r[at >> 6] & ~mask) | (p4_words_at(v, m, done) << s & mask);
        done += take;
    }
}

/* Decimal digits of a word array, written backwards so that the last one stands before `end`; returns the first. */
static P4_UNUSED char *p4_decimal(char *end, const uint64_t *words, unsigned n) {
    uint64_t w[64];
    if (n > 64) n = 64;
    memcpy(w, words, n * sizeof *w);
    for (;;) {
        uint64_t rest = 0, any = 0;
        for (unsigned i = n; i-- > 0;) {
            p4_u128 v = P4_U128(rest, w[i]);
            w[i] = (uint64_t)(v / 10); rest = (uint64_t)(v % 10); any |= w[i];
        }
        *--end = (char)('0' + rest);
        if (!any) return end;
    }
}

/* Append the decimal digits of a word array to text (no terminating zero); returns their number. */
static P4_UNUSED size_t p4_put_decimal(char *text, const uint64_t *words, unsigned n) {
    char digits[1240]; /* 64 words have 1,234 digits */
    char *end = digits + sizeof digits, *first = p4_decimal(end, words, n);
    memcpy(text, first, (size_t)(end - first));
    return (size_t)(end - first);
}

/* The type of N words and its arithmetic. `width` is the exact width in bits; results are masked to it. */
#define P4_DEFINE_WIDE(N)                                                                                                 \
typedef struct { uint64_t w[N]; } p4_w##N;                                                                                \
static inline p4_w##N p4_w##N##_mask(p4_w##N a, unsigned width) {                                                         \
    for (unsigned i = (width + 63) / 64; i < N; i++) a.w[i] = 0;                                                          \
    if (width & 63) a.w[width / 64] &= p4_top_mask(width);                                                                \
    return a;                                                                                                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_from(const uint64_t *w, unsigned n, unsigned width) {                                     \
    p4_w##N r;                                                                                                            \
    for (unsigned i = 0; i < N; i++) r.w[i] = i < n ? w[i] : 0;                                                           \
    return p4_w##N##_mask(r, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_from128(p4_u128 v) {                                                                      \
    p4_w##N r = {{(uint64_t)v, (uint64_t)(v >> 64)}};                                                                     \
    return r;                                                                                                             \
}                                                                                                                         \
/* Sign-extend from `from` bits of an n-word array. */                                                                    \
static inline p4_w##N p4_w##N##_sext(const uint64_t *w, unsigned n, unsigned from, unsigned width) {                      \
    p4_w##N r = p4_w##N##_from(w, n, from < width ? from : width);                                                        \
    if (from < width && p4_words_bit(w, from - 1)) {                                                                      \
        if (from & 63) r.w[from / 64] |= ~p4_top_mask(from);                                                              \
        for (unsigned i = (from + 63) / 64; i < N; i++) r.w[i] = UINT64_MAX;                                              \
    }                                                                                                                     \
    return p4_w##N##_mask(r, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_slice(const uint64_t *w, unsigned n, unsigned lo, unsigned width) {                       \
    p4_w##N r;                                                                                                            \
    for (unsigned i = 0; i < N; i++) r.w[i] = p4_words_at(w, n, lo + 64 * (uint64_t)i);                                   \
    return p4_w##N##_mask(r, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_insert(p4_w##N a, unsigned lo, unsigned width, const uint64_t *v, unsigned m) {           \
    p4_words_insert(a.w, lo, width, v, m);                                                                                \
    return a;                                                                                                             \
}                                                                                                                         \
/* left ++ right: right (rwidth bits of an m-word array) below left (lwidth bits of an l-word array). */                  \
static inline p4_w##N p4_w##N##_concat(const uint64_t *left, unsigned l, unsigned lwidth,                                 \
                                       const uint64_t *right, unsigned m, unsigned rwidth) {                              \
    p4_w##N r = p4_w##N##_from(right, m, rwidth);                                                                         \
    p4_words_insert(r.w, rwidth, lwidth, left, l);                                                                        \
    return r;                                                                                                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_add(p4_w##N a, p4_w##N b, unsigned width) {                                               \
    unsigned carry = 0;                                                                                                   \
    for (unsigned i = 0; i < N; i++) {                                                                                    \
        p4_u128 s = (p4_u128)a.w[i] + b.w[i] + carry;                                                                     \
        a.w[i] = (uint64_t)s; carry = (unsigned)(s >> 64);                                                                \
    }                                                                                                                     \
    return p4_w##N##_mask(a, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_sub(p4_w##N a, p4_w##N b, unsigned width) {                                               \
    unsigned borrow = 0;                                                                                                  \
    for (unsigned i = 0; i < N; i++) {                                                                                    \
        p4_u128 d = (p4_u128)a.w[i] - b.w[i] - borrow;                                                                    \
        a.w[i] = (uint64_t)d; borrow = (unsigned)(d >> 64) & 1;                                                           \
    }                                                                                                                     \
    return p4_w##N##_mask(a, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_mul(p4_w##N a, p4_w##N b, unsigned width) {                                               \
    p4_w##N r = {{0}};                                                                                                    \
    for (unsigned i = 0; i < N; i++) {                                                                                    \
        uint64_t carry = 0;                                                                                               \
        for (unsigned j = 0; i + j < N; j++) {                                                                            \
            p4_u128 t = (p4_u128)a.w[i] * b.w[j] + r.w[i + j] + carry;                                                    \
            r.w[i + j] = (uint64_t)t; carry = (uint64_t)(t >> 64);                                                        \
        }                                                                                                                 \
    }                                                                                                                     \
    return p4_w##N##_mask(r, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_shl(p4_w##N a, uint64_t by, unsigned width) {                                             \
    p4_w##N r;                                                                                                            \
    p4_words_shl(r.w, a.w, N, by);                                                                                        \
    return p4_w##N##_mask(r, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_shr(p4_w##N a, uint64_t by, unsigned width) {                                             \
    return by >= width ? p4_w##N##_from128(0) : p4_w##N##_slice(a.w, N, (unsigned)by, width);                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_not(p4_w##N a, unsigned width) {                                                          \
    for (unsigned i = 0; i < N; i++) a.w[i] = ~a.w[i];                                                                    \
    return p4_w##N##_mask(a, width);                                                                                      \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_sar(p4_w##N a, uint64_t by, unsigned width) {                                             \
    if (!p4_words_bit(a.w, width - 1)) return p4_w##N##_shr(a, by, width);                                                \
    return p4_w##N##_not(p4_w##N##_shr(p4_w##N##_not(a, width), by, width), width);                                       \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_neg(p4_w##N a, unsigned width) {                                                          \
    return p4_w##N##_sub(p4_w##N##_from128(0), a, width);                                                                 \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_and(p4_w##N a, p4_w##N b) {                                                               \
    for (unsigned i = 0; i < N; i++) a.w[i] &= b.w[i];                                                                    \
    return a;                                                                                                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_or(p4_w##N a, p4_w##N b) {                                                                \
    for (unsigned i = 0; i < N; i++) a.w[i] |= b.w[i];                                                                    \
    return a;                                                                                                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_xor(p4_w##N a, p4_w##N b) {                                                               \
    for (unsigned i = 0; i < N; i++) a.w[i] ^= b.w[i];                                                                    \
    return a;                                                                                                             \
}                                                                                                                         \
static inline int p4_w##N##_cmp(p4_w##N a, p4_w##N b) { return p4_words_cmp(a.w, b.w, N); }                               \
static inline int p4_w##N##_cmps(p4_w##N a, p4_w##N b, unsigned width) {                                                  \
    bool x = p4_words_bit(a.w, width - 1), y = p4_words_bit(b.w, width - 1);                                              \
    return x != y ? (x ? -1 : 1) : p4_words_cmp(a.w, b.w, N);                                                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_max(unsigned width, bool is_signed) {                                                     \
    p4_w##N r = p4_w##N##_not(p4_w##N##_from128(0), width);                                                               \
    if (is_signed) r.w[(width - 1) / 64] ^= (uint64_t)1 << ((width - 1) & 63);                                            \
    return r;                                                                                                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_sat_add(p4_w##N a, p4_w##N b, unsigned width) {                                           \
    p4_w##N s = p4_w##N##_add(a, b, width);                                                                               \
    return p4_words_cmp(s.w, a.w, N) < 0 ? p4_w##N##_max(width, false) : s;                                               \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_sat_sub(p4_w##N a, p4_w##N b, unsigned width) {                                           \
    return p4_words_cmp(a.w, b.w, N) < 0 ? p4_w##N##_from128(0) : p4_w##N##_sub(a, b, width);                             \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_clamp(p4_w##N s, bool negative, unsigned width) { /* after a signed overflow */           \
    p4_w##N max = p4_w##N##_max(width, true);                                                                             \
    (void)s;                                                                                                              \
    return negative ? p4_w##N##_not(max, width) : max;                                                                    \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_sat_adds(p4_w##N a, p4_w##N b, unsigned width) {                                          \
    p4_w##N s = p4_w##N##_add(a, b, width);                                                                               \
    bool x = p4_words_bit(a.w, width - 1), y = p4_words_bit(b.w, width - 1), z = p4_words_bit(s.w, width - 1);            \
    return x == y && z != x ? p4_w##N##_clamp(s, x, width) : s;                                                           \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_sat_subs(p4_w##N a, p4_w##N b, unsigned width) {                                          \
    p4_w##N s = p4_w##N##_sub(a, b, width);                                                                               \
    bool x = p4_words_bit(a.w, width - 1), y = p4_words_bit(b.w, width - 1), z = p4_words_bit(s.w, width - 1);            \
    return x != y && z != x ? p4_w##N##_clamp(s, x, width) : s;                                                           \
}                                                                                                                         \
static inline p4_w##N p4_w##N##_divmod(p4_w##N a, p4_w##N b, unsigned width, bool want_rest) { /* by zero: 0 */           \
    p4_w##N zero = p4_w##N##_from128(0), q = zero, rest = zero;                                                           \
    if (!p4_words_cmp(b.w, zero.w, N)) return zero;                                                                       \
    for (unsigned i = width; i-- > 0;) {                                                                                  \
        bool out = rest.w[N - 1] >> 63;                                                                                   \
        p4_words_shl(rest.w, rest.w, N, 1);                                                                               \
        rest.w[0] |= p4_words_bit(a.w, i);                                                                                \
        if (out || p4_words_cmp(rest.w, b.w, N) >= 0) {                                                                   \
            rest = p4_w##N##_sub(rest, b, 64 * N);                                                                        \
            q.w[i >> 6] |= (uint64_t)1 << (i & 63);                                                                       \
        }                                                                                                                 \
    }                                                                                                                     \
    return want_rest ? rest : q;                                                                                          \
}                                                                                                                         \
static inline uint64_t p4_w##N##_amount(p4_w##N a) {                                                                      \
    for (unsigned i = 1; i < N; i++) if (a.w[i]) return UINT64_MAX;                                                       \
    return a.w[0];                                                                                                        \
}

/* ---- hashes that are plain folds over bytes (the CRCs and the Internet checksum are the runtime's) -------------------- */

/* xor16: the XOR of big-endian 16-bit words, the last one padded with zeros. */
static P4_UNUSED uint16_t p4_xor16(uint16_t state, const uint8_t *p, size_t n) {
    for (; n >= 2; n -= 2, p += 2) state ^= (uint16_t)p4_load_be(p, 2);
    return n ? state ^ (uint16_t)(p[0] << 8) : state;
}

/* identity: the first eight bytes (all, if fewer) as a big-endian number. */
static P4_UNUSED uint64_t p4_identity(const uint8_t *p, size_t n) { return n ? p4_load_be(p, n < 8 ? (unsigned)n : 8) : 0; }
#endif
