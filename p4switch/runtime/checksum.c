/* Checksums: CRC-32 (IEEE 802.3), CRC-16 (ARC, as v1model's crc16), the Internet checksum.
 *
 * CRC-32 folds 64 bytes a step with carry-less multiplication where the processor has it (1 KB in well under 100 ns), else goes
 * eight bytes a step through tables ("slicing by 8"). The folding follows Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ", Intel 2009, in its bit-reflected form; the constants are x^n mod P there.
 */
#include <string.h>

#include "control.h"
#include "p4rt.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded in little-endian order below");

static uint32_t crc32_table[8][256];
static uint16_t crc16_table[2][256];
static bool have_pclmul;

__attribute__((constructor)) static void build_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        uint16_t d = (uint16_t)i;
        for (int bit = 0; bit < 8; bit++) {
            c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0);
            d = (uint16_t)((d >> 1) ^ (d & 1 ? 0xa001u : 0));
        }
        crc32_table[0][i] = c;
        crc16_table[0][i] = d;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) {
            uint32_t c = crc32_table[k - 1][i];
            crc32_table[k][i] = (c >> 8) ^ crc32_table[0][c & 0xff];
        }
        crc16_table[1][i] = (uint16_t)((crc16_table[0][i] >> 8) ^ crc16_table[0][crc16_table[0][i] & 0xff]);
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    have_pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

static uint32_t crc32_slices(uint32_t state, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t lo, hi;
        memcpy(&lo, p, 4);
        memcpy(&hi, p + 4, 4);
        lo ^= state;
        state = crc32_table[7][lo & 0xff] ^ crc32_table[6][lo >> 8 & 0xff] ^ crc32_table[5][lo >> 16 & 0xff] ^
                crc32_table[4][lo >> 24] ^ crc32_table[3][hi & 0xff] ^ crc32_table[2][hi >> 8 & 0xff] ^
                crc32_table[1][hi >> 16 & 0xff] ^ crc32_table[0][hi >> 24];
    }
    for (; n; p++, n--) state = (state >> 8) ^ crc32_table[0][(state ^ *p) & 0xff];
    return state;
}

#if defined(__x86_64__)
#define FOLD __attribute__((target("pclmul,sse4.1")))

FOLD static inline __m128i fold(__m128i x, __m128i k, __m128i next)
{
    __m128i lo = _mm_clmulepi64_si128(x, k, 0x00), hi = _mm_clmulepi64_si128(x, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(lo, hi), next);
}

/* n >= 16; consumes the largest multiple of 16 bytes. */
FOLD static uint32_t crc32_fold(uint32_t state, const uint8_t *p, size_t n)
{
    const __m128i k64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);   /* x^(512-32), x^(512+32) */
    const __m128i k16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);   /* x^(128-32), x^(128+32) */
    const __m128i k8 = _mm_set_epi64x(0, 0x0163cd6124);               /* x^64 */
    const __m128i poly = _mm_set_epi64x(0x01f7011641, 0x01db710641);  /* Barrett: mu, P */
    const __m128i low32 = _mm_set_epi32(0, -1, 0, -1);
    const __m128i *q = (const __m128i *)p;
    __m128i x = _mm_xor_si128(_mm_loadu_si128(q++), _mm_cvtsi32_si128((int)state));
    n -= 16;
    if (n >= 48) {
        __m128i a = x, b = _mm_loadu_si128(q), c = _mm_loadu_si128(q + 1), d = _mm_loadu_si128(q + 2);
        q += 3;
        n -= 48;
        for (; n >= 64; q += 4, n -= 64) {
            a = fold(a, k64, _mm_loadu_si128(q));
            b = fold(b, k64, _mm_loadu_si128(q + 1));
            c = fold(c, k64, _mm_loadu_si128(q + 2));
            d = fold(d, k64, _mm_loadu_si128(q + 3));
        }
        x = fold(fold(fold(a, k16, b), k16, c), k16, d);
    }
    for (; n >= 16; q++, n -= 16) x = fold(x, k16, _mm_loadu_si128(q));
    /* 128 bits to 64, to 32 */
    x = _mm_xor_si128(_mm_clmulepi64_si128(x, k16, 0x10), _mm_srli_si128(x, 8));
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), k8, 0x00), _mm_srli_si128(x, 4));
    __m128i t = _mm_clmulepi64_si128(_mm_and_si128(x, low32), poly, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, low32), poly, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}
#endif

uint32_t p4_crc32_init(void) { return 0xffffffffu; }
uint32_t p4_crc32_end(uint32_t state) { return ~state; }

uint32_t p4_crc32_add(uint32_t state, const uint8_t *p, size_t n)
{
#if defined(__x86_64__)
    if (n >= 32 && have_pclmul) {
        size_t folded = n & ~(size_t)15;
        state = crc32_fold(state, p, folded);
        p += folded;
        n -= folded;
    }
#endif
    return crc32_slices(state, p, n);
}

uint16_t p4_crc16_init(void) { return 0; }
uint16_t p4_crc16_end(uint16_t state) { return state; }

uint16_t p4_crc16_add(uint16_t state, const uint8_t *p, size_t n)
{
    for (; n >= 2; p += 2, n -= 2) {
        uint16_t x = (uint16_t)(state ^ (p[0] | p[1] << 8));
        state = crc16_table[1][x & 0xff] ^ crc16_table[0][x >> 8];
    }
    if (n) state = (uint16_t)((state >> 8) ^ crc16_table[0][(state ^ *p) & 0xff]);
    return state;
}

/* The one's complement sum of 16-bit words can be taken in any byte order, and swapped afterwards (RFC 1071, 2B). */
static uint16_t sum_pairs(const uint8_t *p, size_t n)
{
    unsigned __int128 wide = 0;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide += word;
    }
    uint64_t sum = (uint64_t)(wide & 0xffffffff) + (uint64_t)(wide >> 32 & 0xffffffff) + (uint64_t)(wide >> 64);
    for (; n >= 2; p += 2, n -= 2) {
        uint16_t word;
        memcpy(&word, p, 2);
        sum += word;
    }
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)(sum << 8 | sum >> 8);
}

void p4_csum16_add(struct p4_csum16 *c, const uint8_t *p, size_t n)
{
    if (!n) return;
    if (c->odd) {  /* the pending byte was added as the high half of its word */
        c->sum += *p++;
        n--;
        c->odd = 0;
    }
    c->sum += sum_pairs(p, n & ~(size_t)1);
    if (n & 1) {
        c->sum += (uint32_t)(p[n - 1] << 8);
        c->odd = 1;
    }
}

uint16_t p4_csum16_end(const struct p4_csum16 *c)
{
    uint64_t sum = c->sum;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

uint32_t sw_checksum(uint32_t which, const uint8_t *p, size_t n)
{
    struct p4_csum16 c = {0};
    switch (which) {
    case 0: return p4_crc32_end(p4_crc32_add(p4_crc32_init(), p, n));
    case 1: return p4_crc16_end(p4_crc16_add(p4_crc16_init(), p, n));
    case 2: p4_csum16_add(&c, p, n); return p4_csum16_end(&c);
    default: return p4_crc32_end(crc32_slices(p4_crc32_init(), p, n));
    }
}
