/* The packet pool: all packets, with their phv and buffer, in one mapping made when a program is loaded. Last freed, first used,
 * so that a switch that keeps up touches a handful of them and the rest of the mapping never becomes memory. */
#include <stdlib.h>
#include <sys/mman.h>

#include "switch.h"

#define LINE 64
static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

int pool_init(struct pool *pool, uint32_t packets, uint32_t phv_size)
{
    size_t body = round_up(sizeof(struct packet), LINE) + round_up(phv_size, LINE);
    *pool = (struct pool){.total = packets, .stride = body + round_up(HEADROOM + MAX_FRAME, LINE) + LINE};
    pool->memory_bytes = pool->stride * packets;
    pool->memory = mmap(NULL, pool->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool->memory == MAP_FAILED) {
        pool->memory = NULL;
        return fail(SW_SYSTEM, "no memory for %u packets of %zu bytes; ask for fewer", packets, pool->stride);
    }
    return SW_OK;
}

void pool_free(struct pool *pool)
{
    if (pool->memory) munmap(pool->memory, pool->memory_bytes);
    *pool = (struct pool){0};
}

struct packet *pool_get(struct pool *pool)
{
    struct packet *k = pool->free;
    if (k) {
        pool->free = k->next;
    } else {
        if (pool->fresh == pool->total) return NULL;
        k = (struct packet *)(pool->memory + pool->stride * pool->fresh++);
        uint8_t *after = (uint8_t *)k + round_up(sizeof *k, LINE);
        k->p.phv = after;
        k->buffer = (uint8_t *)k + pool->stride - LINE - round_up(HEADROOM + MAX_FRAME, LINE);
    }
    pool->in_use++;
    k->next = NULL;
    k->floor = k->buffer;
    k->in_egress = false;
    k->borrowed = false;
    k->digest = -1;
    k->p.ask.flags = 0;
    return k;
}

void pool_put(struct pool *pool, struct packet *k)
{
    k->next = pool->free;
    pool->free = k;
    pool->in_use--;
}
