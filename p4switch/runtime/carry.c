/* What packets change, carried from a program to its successor while neither works on any: cells of registers, counters and meters,
 * and what is kept of table entries. Objects are the same that have the same id and the same shape; what the successor's own control
 * plane wrote there before was a copy that is older. */
#include <string.h>

#include "switch.h"
#include "table.h"

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void carry_registers(const struct pipeline *from, struct pipeline *to)
{
    for (uint32_t i = 0; i < from->program->n_registers; i++)
        for (uint32_t j = 0; j < to->program->n_registers; j++) {
            const struct p4_register_desc *a = &from->program->registers[i], *b = &to->program->registers[j];
            if (a->id != b->id || a->width != b->width) continue;
            size_t words = (size_t)least(a->size, b->size) * from->registers[i].words;
            memcpy(to->registers[j].cells, from->registers[i].cells, words * sizeof(uint64_t));
        }
}

static void carry_counters(const struct pipeline *from, struct pipeline *to)
{
    for (uint32_t i = 0; i < from->program->n_counters; i++)
        for (uint32_t j = 0; j < to->program->n_counters; j++) {
            const struct p4_counter_desc *a = &from->program->counters[i], *b = &to->program->counters[j];
            if (a->id != b->id || a->table >= 0 || b->table >= 0) continue;
            memcpy(to->counters[j], from->counters[i], least(a->size, b->size) * sizeof *to->counters[j]);
        }
}

static void carry_meters(const struct pipeline *from, struct pipeline *to)
{
    for (uint32_t i = 0; i < from->program->n_meters; i++)
        for (uint32_t j = 0; j < to->program->n_meters; j++) {
            const struct p4_meter_desc *a = &from->program->meters[i], *b = &to->program->meters[j];
            if (a->id != b->id || a->unit != b->unit || a->table >= 0 || b->table >= 0) continue;
            memcpy(to->meters[j], from->meters[i], least(a->size, b->size) * sizeof *to->meters[j]);
        }
}

struct carried { const struct p4_table *to; bool counter, meter; };

static void carry_stats(const struct entry_stats *from, struct entry_stats *to, const struct carried *c)
{
    if (!from || !to) return;
    to->last_hit_ns = from->last_hit_ns;
    if (c->counter) {
        to->packets = from->packets;
        to->bytes = from->bytes;
    }
    if (c->meter) to->meter = from->meter;
}

static void carry_entry(const struct p4_table *t, const struct table_entry *e, void *with)
{
    const struct carried *c = with;
    size_t bytes = t->key_words * sizeof(uint64_t);
    struct table_key key = {.priority = e->priority};
    memcpy(key.value, e->words, bytes);
    memcpy(key.mask, e->words + t->key_words, bytes);
    if (t->has_ranges) {
        memcpy(key.low, e->words + 2 * t->key_words, bytes);
        memcpy(key.high, e->words + 3 * t->key_words, bytes);
    }
    struct table_entry *same = table_exact_entry(c->to, &key);
    if (same) carry_stats(e->stats, same->stats, c);
}

static bool same_keys(const struct p4_table_desc *a, const struct p4_table_desc *b)
{
    if (a->n_keys != b->n_keys || a->key_words != b->key_words) return false;
    for (uint32_t i = 0; i < a->n_keys; i++)
        if (a->keys[i].width != b->keys[i].width || a->keys[i].match != b->keys[i].match) return false;
    return true;
}

static void carry_tables(const struct pipeline *from, struct pipeline *to)
{
    for (uint32_t i = 0; i < from->program->n_tables; i++)
        for (uint32_t j = 0; j < to->program->n_tables; j++) {
            const struct p4_table *a = &from->tables[i], *b = &to->tables[j];
            if (a->desc->id != b->desc->id || !a->has_stats || !b->has_stats || !same_keys(a->desc, b->desc)) continue;
            struct carried with = {.to = b, .counter = a->desc->direct_counter >= 0 && b->desc->direct_counter >= 0};
            if (a->desc->direct_meter >= 0 && b->desc->direct_meter >= 0)
                with.meter = from->program->meters[a->desc->direct_meter].unit == to->program->meters[b->desc->direct_meter].unit;
            table_each(a, carry_entry, &with);
            carry_stats(a->miss, b->miss, &with);
        }
}

void carry_state(const struct pipeline *from, struct pipeline *to)
{
    carry_registers(from, to);
    carry_counters(from, to);
    carry_meters(from, to);
    carry_tables(from, to);
}
