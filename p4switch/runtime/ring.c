/* A ring of byte records between one producer and one consumer thread: packet-in, packet-out, digests. A record is a u32 length, a
 * u32 tag and the bytes; the data plane writes and reads it without a lock, and without a system call unless the consumer sleeps. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "switch.h"

int ring_init(struct record_ring *r, uint64_t size)
{
    *r = (struct record_ring){.size = size, .bytes = malloc(size), .event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (!r->bytes || r->event < 0) {
        ring_free(r);
        return fail(SW_SYSTEM, "cannot make a packet ring: %s", strerror(errno));
    }
    return SW_OK;
}

void ring_free(struct record_ring *r)
{
    if (r->bytes && r->event >= 0) close(r->event);
    free(r->bytes);
    r->bytes = NULL;
    r->event = -1;
}

static void copy_in(struct record_ring *r, uint64_t at, const void *from, uint32_t n)
{
    uint64_t i = at & (r->size - 1), first = r->size - i < n ? r->size - i : n;
    memcpy(r->bytes + i, from, first);
    memcpy(r->bytes, (const uint8_t *)from + first, n - first);
}

static void copy_out(struct record_ring *r, uint64_t at, void *to, uint32_t n)
{
    uint64_t i = at & (r->size - 1), first = r->size - i < n ? r->size - i : n;
    memcpy(to, r->bytes + i, first);
    memcpy((uint8_t *)to + first, r->bytes, n - first);
}

void ring_wake(struct record_ring *r)
{
    uint64_t one = 1;
    if (write(r->event, &one, sizeof one) < 0) { /* only when the counter is full: the consumer is awake then */ }
}

bool ring_put(struct record_ring *r, uint32_t tag, const uint8_t *a, uint32_t a_len, const uint8_t *b, uint32_t b_len)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint32_t header[2] = {a_len + b_len, tag};
    if (head + sizeof header + a_len + b_len - atomic_load_explicit(&r->tail, memory_order_acquire) > r->size) return false;
    copy_in(r, head, header, sizeof header);
    if (a_len) copy_in(r, head + sizeof header, a, a_len);
    if (b_len) copy_in(r, head + sizeof header + a_len, b, b_len);
    atomic_store(&r->head, head + sizeof header + a_len + b_len);
    if (atomic_exchange(&r->sleeping, 0)) ring_wake(r);
    return true;
}

uint32_t ring_take(struct record_ring *r, uint8_t *out, uint32_t capacity, uint32_t limit)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed), head = atomic_load(&r->head);
    uint32_t n = 0;
    for (; tail != head && limit; limit--) {
        uint32_t header[2];
        copy_out(r, tail, header, sizeof header);
        uint32_t total = (uint32_t)sizeof header + header[0];
        if (total > capacity - n) break;
        copy_out(r, tail, out + n, total);
        n += total;
        tail += total;
    }
    atomic_store_explicit(&r->tail, tail, memory_order_release);
    return n;
}

int ring_wait(struct record_ring *r, uint8_t *out, uint32_t capacity, int timeout_ms)
{
    if (capacity < 8 + MAX_FRAME) return fail(SW_INVALID, "a buffer of %u bytes cannot hold a packet", capacity);
    for (int tries = 0; tries < 2; tries++) {
        uint32_t n = ring_take(r, out, capacity, UINT32_MAX);
        if (n || tries) return (int)n;
        atomic_store(&r->sleeping, 1);
        if (atomic_load(&r->head) == atomic_load(&r->tail)) {
            struct pollfd fd = {.fd = r->event, .events = POLLIN};
            poll(&fd, 1, timeout_ms);
            uint64_t count;
            if (read(r->event, &count, sizeof count) < 0) { /* woken by the timeout */ }
        }
        atomic_store(&r->sleeping, 0);
    }
    return 0;
}
