/* How control threads and the data plane keep out of each other's way (see switch.h), and the error message of a thread. */
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>

#include "switch.h"

static _Thread_local char message[512];

int fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

const char *sw_error(void) { return message; }

/* An odd epoch that has changed since, or an even one, means that no batch which could have seen the memory is still running. */
static bool unseen(uint64_t retired_at, uint64_t now) { return !(retired_at & 1) || now != retired_at; }

void reclaim(p4_switch *sw, bool all)
{
    struct graveyard *g = &sw->graveyard;
    uint64_t now = atomic_load(&sw->epoch);
    size_t kept = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (all || unseen(g->items[i].epoch, now)) free(g->items[i].memory);
        else g->items[kept++] = g->items[i];
    }
    g->n = kept;
}

void retire(p4_switch *sw, void *memory)
{
    struct graveyard *g = &sw->graveyard;
    if (!memory) return;
    atomic_thread_fence(memory_order_seq_cst);
    if (g->n == g->capacity) {
        reclaim(sw, false);
        if (g->n * 2 >= g->capacity) {
            size_t capacity = g->capacity ? g->capacity * 2 : 256;
            struct retired *items = realloc(g->items, capacity * sizeof *items);
            if (items) {
                g->items = items;
                g->capacity = capacity;
            }
        }
        while (g->n == g->capacity) {  /* out of memory: wait for the data plane's next batch */
            sched_yield();
            reclaim(sw, false);
        }
    }
    g->items[g->n++] = (struct retired){memory, atomic_load(&sw->epoch)};
}

void gate_enter(p4_switch *sw)
{
    atomic_fetch_add(&sw->gate_waiters, 1);
    pthread_mutex_lock(&sw->gate);
    atomic_fetch_sub(&sw->gate_waiters, 1);
}

void gate_leave(p4_switch *sw) { pthread_mutex_unlock(&sw->gate); }
