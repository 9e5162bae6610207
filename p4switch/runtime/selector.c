/* Action selectors: entries that choose one of several actions for each packet, by a hash of the packet's selector keys. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* ---- the data plane's side ----------------------------------------------------------------------------------------- */
/* Append the low `width` bits of a key, most significant first, to a string of bits. */
static void append(uint8_t *bytes, uint32_t *bits, const uint64_t *words, uint32_t width)
{
    for (uint32_t bit = width; bit-- > 0; (*bits)++)
        if (words[bit / 64] >> (bit % 64) & 1) bytes[*bits / 8] |= (uint8_t)(0x80 >> *bits % 8);
}

static uint64_t hash_bytes(struct p4_packet *p, enum p4_hash hash, const uint8_t *bytes, uint32_t n)
{
    uint64_t value = 0;
    struct p4_csum16 sum = {0};
    switch (hash) {
    case P4_HASH_CRC32: return p4_crc32_end(p4_crc32_add(p4_crc32_init(), bytes, n));
    case P4_HASH_CSUM16:
        p4_csum16_add(&sum, bytes, n);
        return p4_csum16_end(&sum);
    case P4_HASH_XOR16:
        for (uint32_t i = 0; i < n; i++) value ^= (uint64_t)bytes[i] << (i % 2 ? 0 : 8);
        return value;
    case P4_HASH_IDENTITY:
        for (uint32_t i = n > 8 ? n - 8 : 0; i < n; i++) value = value << 8 | bytes[i];
        return value;
    case P4_HASH_RANDOM: return p4_random(p);
    default: return p4_crc16_end(p4_crc16_add(p4_crc16_init(), bytes, n));
    }
}

const struct p4_entry *choose(struct p4_packet *p, const struct p4_table *t, const struct choices *choices, const uint64_t *key)
{
    if (choices->n <= 1) return choices->result;
    uint8_t bytes[KEY_WORDS * 8] = {0};
    uint32_t bits = 0;
    for (uint32_t k = 0; k < t->desc->n_keys; k++)
        if (t->desc->keys[k].match == P4_SELECTOR)
            append(bytes, &bits, key + t->desc->keys[k].word, t->desc->keys[k].width);
    enum p4_hash hash = p->sw->program->profiles[t->desc->action_profile].hash;
    return &choices->result[hash_bytes(p, hash, bytes, (bits + 7) / 8) % choices->n];
}

/* ---- the control plane's side -------------------------------------------------------------------------------------- */
/* `hit` is 2 in a choice: a hit, but not the entry itself. No choice at all does what the default action does, as a hit. */
static int set_choices(p4_switch *sw, struct p4_table *t, struct table_entry *e, uint32_t n, const uint32_t *actions,
                       const uint64_t *data, uint64_t data_words)
{
    const struct p4_program *program = sw->program;
    const struct p4_entry *fallback = atomic_load(&t->fallback);
    uint64_t needed = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (actions[i] >= t->desc->n_actions)
            return fail(SW_INVALID, "table %s has %u actions; there is no action %u", t->desc->name, t->desc->n_actions, actions[i]);
        needed += program->actions[t->desc->actions[actions[i]]].data_words;
    }
    if (needed > data_words) return fail(SW_INVALID, "table %s: the choices have too few words", t->desc->name);
    if (!n) {
        needed = program->actions[t->desc->actions[fallback->action]].data_words;
        data = fallback->data;
    }
    size_t results = n ? n : 1;
    struct choices *c = calloc(1, sizeof *c + results * sizeof *c->result + needed * sizeof *data);
    if (!c) return fail(SW_SYSTEM, "no memory for an entry of table %s", t->desc->name);
    uint64_t *copy = (uint64_t *)(c->result + results);
    if (needed) memcpy(copy, data, needed * sizeof *data);
    c->n = n;
    for (size_t i = 0; i < results; i++) {
        uint32_t action = n ? actions[i] : fallback->action;
        c->result[i] = (struct p4_entry){.action = action, .hit = 2, .data = copy};
        copy += program->actions[t->desc->actions[action]].data_words;
    }
    retire(sw, atomic_exchange(&e->choices, c));
    return SW_OK;
}

int sw_table_choose(p4_switch *sw, const struct sw_table_op *op, const uint64_t *words, uint32_t n, const uint32_t *actions,
                    const uint64_t *data, uint64_t data_words)
{
    pthread_mutex_lock(&sw->control);
    int status;
    struct table_key key;
    if (!sw->program) status = fail(SW_STATE, "no program is loaded");
    else if (op->table >= sw->program->n_tables)
        status = fail(SW_INVALID, "there is no table %u; the program has %u", op->table, sw->program->n_tables);
    else {
        struct p4_table *t = &sw->tables[op->table];
        const uint64_t *value = words + op->word;
        status = t->has_selector ? table_key(t, value, value + t->key_words, op->priority, &key)
                                 : fail(SW_INVALID, "table %s has no action selector", t->desc->name);
        struct table_entry *e = status ? NULL : table_exact_entry(t, &key);
        if (!status)
            status = e ? set_choices(sw, t, e, n, actions, data, data_words)
                       : fail(SW_MISSING, "table %s has no entry with this key", t->desc->name);
    }
    reclaim(sw, false);
    pthread_mutex_unlock(&sw->control);
    return status;
}
