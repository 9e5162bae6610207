/* The control plane's view of tables: checked updates in batches, dumps, default entries, direct counters and meters. */
#include <string.h>

#include "table.h"

static int enter(p4_switch *sw, uint32_t table, struct p4_table **t)
{
    pthread_mutex_lock(&sw->control);
    int status = SW_OK;
    *t = NULL;
    if (!sw->program) status = fail(SW_STATE, "no program is loaded");
    else if (table >= sw->program->n_tables)
        status = fail(SW_INVALID, "there is no table %u; the program has %u", table, sw->program->n_tables);
    else *t = &sw->tables[table];
    if (status) pthread_mutex_unlock(&sw->control);
    return status;
}

static int leave(p4_switch *sw, int status)
{
    pthread_mutex_unlock(&sw->control);
    return status;
}

static uint32_t data_words(const p4_switch *sw, const struct p4_table *t, uint32_t action)
{
    return sw->program->actions[t->desc->actions[action]].data_words;
}

static uint32_t most_data_words(const p4_switch *sw, const struct p4_table *t)
{
    uint32_t most = 0;
    for (uint32_t a = 0; a < t->desc->n_actions; a++)
        if (data_words(sw, t, a) > most) most = data_words(sw, t, a);
    return most;
}

/* ---- updates ------------------------------------------------------------------------------------------------------- */
static int apply(p4_switch *sw, const struct sw_table_op *op, const uint64_t *words, uint64_t n_words)
{
    if (op->table >= sw->program->n_tables)
        return fail(SW_INVALID, "there is no table %u; the program has %u", op->table, sw->program->n_tables);
    struct p4_table *t = &sw->tables[op->table];
    const struct p4_table_desc *d = t->desc;
    if (d->entries_const) return fail(SW_READ_ONLY, "table %s has const entries: they cannot be changed", d->name);
    uint64_t needed = op->word + 2 * (uint64_t)t->key_words;
    bool writes = op->op == SW_INSERT || op->op == SW_MODIFY;
    if (writes && op->action >= d->n_actions)
        return fail(SW_INVALID, "table %s has %u actions; there is no action %u", d->name, d->n_actions, op->action);
    if (writes) needed += data_words(sw, t, op->action);
    if (needed > n_words) return fail(SW_INVALID, "table %s: the update has too few words", d->name);
    struct table_key key;
    const uint64_t *value = words + op->word, *data = value + 2 * t->key_words;
    int status = table_key(t, value, value + t->key_words, op->priority, &key);
    if (status) return status;
    const struct table_entry *e = t->n_initial && op->op != SW_INSERT ? table_exact_entry(t, &key) : NULL;
    if (e && e->constant) return fail(SW_READ_ONLY, "table %s: this entry is const", d->name);
    switch (op->op) {
    case SW_INSERT: return table_insert(sw, sw->program, t, &key, op->action, data, false, false);
    case SW_MODIFY: return table_modify(sw, sw->program, t, &key, op->action, data);
    case SW_DELETE: return table_delete(sw, t, &key);
    default: return fail(SW_INVALID, "table %s: there is no update of kind %u", d->name, op->op);
    }
}

int sw_table_apply(p4_switch *sw, struct sw_table_op *ops, uint32_t n, const uint64_t *words, uint64_t n_words)
{
    int first = SW_OK;
    pthread_mutex_lock(&sw->control);
    if (!sw->program) return leave(sw, fail(SW_STATE, "no program is loaded"));
    for (uint32_t i = 0; i < n; i++) {
        ops[i].status = apply(sw, &ops[i], words, n_words);
        if (ops[i].status && !first) first = ops[i].status;
    }
    reclaim(sw, false);
    return leave(sw, first);
}

/* ---- dumps --------------------------------------------------------------------------------------------------------- */
enum { RECORD_HEAD = 7 };

static uint32_t stride(const p4_switch *sw, const struct p4_table *t)
{
    return RECORD_HEAD + 2 * t->key_words + most_data_words(sw, t);
}

static void describe(p4_switch *sw, const struct p4_table *t, const struct table_entry *e, uint64_t now, uint64_t *out)
{
    uint32_t kw = t->key_words;
    memset(out, 0, stride(sw, t) * sizeof *out);
    out[0] = e->serial;
    out[1] = e->result.action;
    out[2] = (uint64_t)(int64_t)(t->kind == TABLE_PRIORITY ? e->priority : 0);
    if (e->stats) {
        uint64_t hit = read_word(&e->stats->last_hit_ns);
        out[3] = read_word(&e->stats->packets);
        out[4] = read_word(&e->stats->bytes);
        out[5] = now > hit ? (now - hit) / 1000 : 0;
    }
    out[6] = e->constant;
    memcpy(out + RECORD_HEAD, e->words, 2 * kw * sizeof *out);
    for (uint32_t w = 0; t->has_ranges && w < kw; w++) {  /* range keys alone have low and high ends */
        out[RECORD_HEAD + w] |= e->words[2 * kw + w];
        out[RECORD_HEAD + kw + w] |= e->words[3 * kw + w];
    }
    uint32_t n = data_words(sw, t, e->result.action);
    if (n) memcpy(out + RECORD_HEAD + 2 * kw, e->result.data, n * sizeof *out);
}

int sw_table_stride(p4_switch *sw, uint32_t table)
{
    struct p4_table *t;
    int status = enter(sw, table, &t);
    return status ? status : leave(sw, (int)stride(sw, t));
}

struct dump { p4_switch *sw; uint64_t *out, room, now; int64_t n; };

static void dump_one(const struct p4_table *t, const struct table_entry *e, void *with)
{
    struct dump *d = with;
    uint32_t words = stride(d->sw, t);
    if (d->room >= words) {
        describe(d->sw, t, e, d->now, d->out);
        d->out += words;
        d->room -= words;
    }
    d->n++;
}

int64_t sw_table_dump(p4_switch *sw, uint32_t table, uint64_t *out, uint64_t capacity_words)
{
    struct p4_table *t;
    int status = enter(sw, table, &t);
    if (status) return status;
    struct dump d = {.sw = sw, .out = out, .room = capacity_words, .now = clock_ns()};
    table_each(t, dump_one, &d);
    leave(sw, SW_OK);
    return d.n;
}

int sw_table_find(p4_switch *sw, uint32_t table, const uint64_t *key, uint64_t *record, uint32_t capacity_words)
{
    struct p4_table *t;
    int status = enter(sw, table, &t);
    if (status) return status;
    if (capacity_words < stride(sw, t)) return leave(sw, fail(SW_INVALID, "table %s: the record does not fit", t->desc->name));
    const struct table_entry *e = t->kind == TABLE_KEYLESS ? NULL : table_find(t, key);
    if (e) describe(sw, t, e, clock_ns(), record);
    return leave(sw, e ? 1 : 0);
}

int sw_table_get(p4_switch *sw, const struct sw_table_op *op, const uint64_t *words, uint64_t *record, uint32_t capacity_words)
{
    struct p4_table *t;
    struct table_key key;
    int status = enter(sw, op->table, &t);
    if (status) return status;
    if (capacity_words < stride(sw, t)) return leave(sw, fail(SW_INVALID, "table %s: the record does not fit", t->desc->name));
    const uint64_t *value = words + op->word;
    status = table_key(t, value, value + t->key_words, op->priority, &key);
    if (status) return leave(sw, status);
    const struct table_entry *e = table_exact_entry(t, &key);
    if (!e) return leave(sw, fail(SW_MISSING, "table %s has no entry with this key", t->desc->name));
    describe(sw, t, e, clock_ns(), record);
    return leave(sw, SW_OK);
}

/* ---- default entries ----------------------------------------------------------------------------------------------- */
int sw_default_get(p4_switch *sw, uint32_t table, uint32_t *action, uint64_t *data, uint32_t capacity_words, bool *is_initial)
{
    struct p4_table *t;
    int status = enter(sw, table, &t);
    if (status) return status;
    const struct p4_entry *e = atomic_load(&t->fallback);
    uint32_t n = data_words(sw, t, e->action);
    if (n > capacity_words) return leave(sw, fail(SW_INVALID, "table %s: the action's data does not fit", t->desc->name));
    *action = e->action;
    if (n) memcpy(data, e->data, n * sizeof *data);
    *is_initial = e->action == t->desc->default_action && (!n || !memcmp(e->data, t->desc->default_data, n * sizeof *data));
    return leave(sw, SW_OK);
}

static int set_default(p4_switch *sw, struct p4_table *t, uint32_t action, const uint64_t *data, uint32_t n_words)
{
    const struct p4_table_desc *d = t->desc;
    if (d->const_default) return fail(SW_READ_ONLY, "table %s has a const default action", d->name);
    if (action >= d->n_actions) return fail(SW_INVALID, "table %s has %u actions; there is no action %u", d->name, d->n_actions, action);
    if (n_words != data_words(sw, t, action)) return fail(SW_INVALID, "table %s: wrong number of words for the action", d->name);
    int status = table_set_default(sw, sw->program, t, action, data);
    reclaim(sw, false);
    return status;
}

int sw_default_set(p4_switch *sw, uint32_t table, uint32_t action, const uint64_t *data, uint32_t n_words)
{
    struct p4_table *t;
    int status = enter(sw, table, &t);
    return status ? status : leave(sw, set_default(sw, t, action, data, n_words));
}

int sw_default_reset(p4_switch *sw, uint32_t table)
{
    struct p4_table *t;
    int status = enter(sw, table, &t);
    if (status) return status;
    const struct p4_table_desc *d = t->desc;
    return leave(sw, set_default(sw, t, d->default_action, d->default_data, data_words(sw, t, d->default_action)));
}

/* ---- direct counters and meters ------------------------------------------------------------------------------------ */
/* Takes `control` and the gate when it succeeds. */
static int enter_entry(p4_switch *sw, const struct sw_table_op *op, const uint64_t *words, struct entry_stats **stats)
{
    struct p4_table *t;
    struct table_key key;
    int status = enter(sw, op->table, &t);
    if (status) return status;
    *stats = t->miss;
    if (op->op != SW_DEFAULT) {
        const uint64_t *value = words + op->word;
        status = table_key(t, value, value + t->key_words, op->priority, &key);
        if (status) return leave(sw, status);
        struct table_entry *e = table_exact_entry(t, &key);
        if (!e) return leave(sw, fail(SW_MISSING, "table %s has no entry with this key", t->desc->name));
        *stats = e->stats;
    }
    if (!*stats) return leave(sw, fail(SW_INVALID, "table %s has no direct counter or meter", t->desc->name));
    gate_enter(sw);
    return SW_OK;
}

static int leave_entry(p4_switch *sw)
{
    gate_leave(sw);
    return leave(sw, SW_OK);
}

int sw_direct_counter_read(p4_switch *sw, const struct sw_table_op *key, const uint64_t *words, uint64_t *out)
{
    struct entry_stats *stats;
    int status = enter_entry(sw, key, words, &stats);
    if (status) return status;
    out[0] = stats->packets;
    out[1] = stats->bytes;
    return leave_entry(sw);
}

int sw_direct_counter_write(p4_switch *sw, const struct sw_table_op *key, const uint64_t *words, uint64_t packets, uint64_t bytes)
{
    struct entry_stats *stats;
    int status = enter_entry(sw, key, words, &stats);
    if (status) return status;
    stats->packets = packets;
    stats->bytes = bytes;
    return leave_entry(sw);
}

int sw_direct_meter_read(p4_switch *sw, const struct sw_table_op *key, const uint64_t *words, struct sw_meter_config *config)
{
    struct entry_stats *stats;
    int status = enter_entry(sw, key, words, &stats);
    if (status) return status;
    meter_describe(&stats->meter, config);
    return leave_entry(sw);
}

int sw_direct_meter_write(p4_switch *sw, const struct sw_table_op *key, const uint64_t *words, const struct sw_meter_config *config)
{
    struct entry_stats *stats;
    int status = enter_entry(sw, key, words, &stats);
    if (status) return status;
    meter_configure(&stats->meter, config, clock_ns());
    return leave_entry(sw);
}

int sw_direct_meter_counts(p4_switch *sw, const struct sw_table_op *key, const uint64_t *words, uint64_t counts[METER_COUNTS], bool set)
{
    struct entry_stats *stats;
    int status = enter_entry(sw, key, words, &stats);
    if (status) return status;
    meter_counts(&stats->meter, counts, set);
    return leave_entry(sw);
}
