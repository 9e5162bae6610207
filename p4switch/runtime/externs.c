/* The externs a program calls, but for checksums, and the state behind them. Only the data-plane thread comes here while packets
 * run; control threads reach the same state through the gate. */
#include <stdlib.h>
#include <string.h>

#include "switch.h"
#include "table.h"

struct p4_register_state *p4_registers(struct p4_packet *p) { return p->sw->pipeline.registers; }

void p4_counter_count(struct p4_packet *p, uint32_t counter, uint32_t index)
{
    struct p4_switch *sw = p->sw;
    if (index >= sw->program->counters[counter].size) return;
    struct counter_cell *cell = &sw->pipeline.counters[counter][index];
    cell->packets++;
    cell->bytes += p->ingress_length;
}

/* One rate, three colours, colour-blind (RFC 2697): what the committed bucket has no room for goes to the excess one. */
static uint32_t color_of_single_rate(struct meter *m, double elapsed, uint64_t cost)
{
    m->committed += elapsed * (double)m->cir;
    if (m->committed > (double)m->cburst) {
        m->peak += m->committed - (double)m->cburst;
        m->committed = (double)m->cburst;
        if (m->peak > (double)m->pburst) m->peak = (double)m->pburst;
    }
    double *bucket = m->committed >= (double)cost ? &m->committed : &m->peak;
    if (*bucket < (double)cost) return 2;
    *bucket -= (double)cost;
    return bucket == &m->peak;
}

/* Two rates, three colours, colour-blind (RFC 2698), with one token per packet or byte as received; a meter that nobody
 * configured gives green. As in BMv2 the buckets start full, and red takes no token from either. */
static uint32_t color_of(struct meter *m, uint64_t now_ns, uint64_t cost)
{
    if (!m->configured) return 0;
    double elapsed = now_ns > m->last_ns ? (double)(now_ns - m->last_ns) * 1e-9 : 0;
    m->last_ns = now_ns;
    if (m->single_rate) return color_of_single_rate(m, elapsed, cost);
    m->peak += elapsed * (double)m->pir;
    if (m->peak > (double)m->pburst) m->peak = (double)m->pburst;
    m->committed += elapsed * (double)m->cir;
    if (m->committed > (double)m->cburst) m->committed = (double)m->cburst;
    if (m->peak < (double)cost) return 2;
    m->peak -= (double)cost;
    if (m->committed < (double)cost) return 1;
    m->committed -= (double)cost;
    return 0;
}

uint32_t meter_execute(struct meter *m, uint64_t now_ns, uint64_t cost, uint64_t bytes)
{
    uint32_t color = color_of(m, now_ns, cost);
    m->counts[2 * color]++;
    m->counts[2 * color + 1] += bytes;
    return color;
}

void meter_configure(struct meter *m, const struct sw_meter_config *c, uint64_t now_ns)
{
    uint64_t counts[METER_COUNTS];
    memcpy(counts, m->counts, sizeof counts);
    uint64_t second = c->eburst ? c->eburst : c->pburst;
    *m = (struct meter){.configured = c->configured, .single_rate = c->eburst > 0, .cir = c->cir, .cburst = c->cburst,
                        .pir = c->pir, .pburst = second, .committed = (double)c->cburst, .peak = (double)second,
                        .last_ns = now_ns};
    memcpy(m->counts, counts, sizeof counts);
}

void meter_describe(const struct meter *m, struct sw_meter_config *c)
{
    *c = (struct sw_meter_config){m->configured, m->cir, m->cburst, m->pir, m->single_rate ? m->cburst : m->pburst,
                                  m->single_rate ? m->pburst : 0};
}

void meter_counts(struct meter *m, uint64_t counts[METER_COUNTS], bool set)
{
    if (set) memcpy(m->counts, counts, sizeof m->counts);
    else memcpy(counts, m->counts, sizeof m->counts);
}

static uint64_t meter_cost(const struct p4_packet *p, uint32_t meter)
{
    return p->sw->program->meters[meter].unit == P4_PACKETS ? 1 : p->ingress_length;
}

uint32_t p4_meter_execute(struct p4_packet *p, uint32_t meter, uint32_t index)
{
    struct p4_switch *sw = p->sw;
    if (index >= sw->program->meters[meter].size) return 0;
    return meter_execute(&sw->pipeline.meters[meter][index], sw->now_ns, meter_cost(p, meter), p->ingress_length);
}

uint32_t p4_direct_meter_read(struct p4_packet *p, uint32_t meter, const struct p4_entry *result)
{
    if (!result->hit) {
        struct entry_stats *miss = p->sw->tables[p->sw->program->meters[meter].table].miss;
        return miss && miss->meter.configured ? meter_execute(&miss->meter, p->sw->now_ns, meter_cost(p, meter), p->ingress_length) : P4_NO_COLOR;
    }
    if (result->hit != 1) return 0;  /* one of several choices has no meter */
    const struct table_entry *e = (const struct table_entry *)((const char *)result - offsetof(struct table_entry, result));
    return e->stats ? meter_execute(&e->stats->meter, p->sw->now_ns, meter_cost(p, meter), p->ingress_length) : 0;
}

/* Whether a key is in a member of a value set that has range fields. */
static bool in_member(const struct p4_value_set_desc *d, const uint64_t *key, const uint64_t *value, const uint64_t *mask)
{
    for (const struct p4_key_desc *f = d->fields; f < d->fields + d->n_fields; f++) {
        const uint64_t *k = key + f->word, *low = value + f->word, *high = mask + f->word;
        uint32_t words = P4_WORDS(f->width);
        if (f->match == P4_RANGE) {
            if (compare_words(k, low, words) < 0 || compare_words(k, high, words) > 0) return false;
        } else {
            for (uint32_t w = 0; w < words; w++)
                if ((k[w] ^ low[w]) & high[w]) return false;
        }
    }
    return true;
}

bool p4_value_set_match(struct p4_packet *p, uint32_t value_set, const uint64_t *key)
{
    const struct value_set *set = atomic_load_explicit(&p->sw->pipeline.value_sets[value_set], memory_order_acquire);
    if (!set) return false;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint64_t *value = set->pairs + (size_t)i * 2 * set->words, *mask = value + set->words;
        if (set->has_ranges) {
            if (in_member(&p->sw->program->value_sets[value_set], key, value, mask)) return true;
            continue;
        }
        uint32_t w = 0;
        while (w < set->words && ((key[w] ^ value[w]) & mask[w]) == 0) w++;
        if (w == set->words) return true;
    }
    return false;
}

/* xoroshiro128+ (Blackman and Vigna): fast, and good enough for sampling and back-off. */
uint64_t p4_random(struct p4_packet *p)
{
    uint64_t *s = p->sw->random, a = s[0], b = s[1], result = a + b;
    b ^= a;
    s[0] = (a << 24 | a >> 40) ^ b ^ b << 16;
    s[1] = b << 37 | b >> 27;
    return result;
}

void p4_digest(struct p4_packet *p, uint32_t digest, const uint64_t *words)
{
    struct packet *k = packet_of(p);
    if (k->in_egress) return;
    k->digest = (int32_t)digest;
    memcpy(k->digest_words, words, p->sw->program->digests[digest].words * sizeof *words);
}

bool p4_log_enabled(const struct p4_packet *p) { return p->sw->options.trace; }

void p4_log(struct p4_packet *p, const char *text)
{
    p4_trace(p, "log: %s", text);
}

/* ---- a loaded program's state -------------------------------------------------------------------------------------- */
static int build_state(p4_switch *sw, struct pipeline *pl)
{
    const struct p4_program *g = pl->program;
    pl->registers = calloc(g->n_registers + 1, sizeof *pl->registers);
    pl->counters = calloc(g->n_counters + 1, sizeof *pl->counters);
    pl->meters = calloc(g->n_meters + 1, sizeof *pl->meters);
    pl->value_sets = calloc(g->n_value_sets + 1, sizeof *pl->value_sets);
    if (!pl->registers || !pl->counters || !pl->meters || !pl->value_sets) return fail(SW_SYSTEM, "no memory for %s", g->source);
    for (uint32_t i = 0; i < g->n_registers; i++) {
        struct p4_register_state *r = &pl->registers[i];
        r->size = g->registers[i].size;
        r->words = P4_WORDS(g->registers[i].width);
        r->cells = calloc((size_t)r->size * r->words + 1, sizeof *r->cells);
        if (!r->cells) return fail(SW_SYSTEM, "no memory for register %s", g->registers[i].name);
    }
    for (uint32_t i = 0; i < g->n_counters; i++) {
        if (g->counters[i].table >= 0) continue;
        pl->counters[i] = calloc((size_t)g->counters[i].size + 1, sizeof *pl->counters[i]);
        if (!pl->counters[i]) return fail(SW_SYSTEM, "no memory for counter %s", g->counters[i].name);
    }
    for (uint32_t i = 0; i < g->n_meters; i++) {
        if (g->meters[i].table >= 0) continue;
        pl->meters[i] = calloc((size_t)g->meters[i].size + 1, sizeof *pl->meters[i]);
        if (!pl->meters[i]) return fail(SW_SYSTEM, "no memory for meter %s", g->meters[i].name);
    }
    for (uint32_t i = 0; i < g->n_digests; i++)
        if (g->digests[i].words > DIGEST_WORDS)
            return fail(SW_INVALID, "digest %s has %u words; the most is %d", g->digests[i].name, g->digests[i].words, DIGEST_WORDS);
    return tables_build(sw, g, &pl->tables);
}

int pipeline_build(p4_switch *sw, const struct p4_program *program, void *library, struct pipeline *out)
{
    *out = (struct pipeline){.program = program, .library = library};
    if (program->abi_version != P4_ABI_VERSION)
        return fail(SW_INVALID, "the program was compiled for runtime ABI %u, this is %u; compile it again", program->abi_version,
                    P4_ABI_VERSION);
    int status = build_state(sw, out);
    if (status) {
        out->library = NULL;  /* the caller's still */
        pipeline_free(out);
    }
    return status;
}

static void free_each(void **items, uint32_t n)
{
    for (uint32_t i = 0; items && i < n; i++) free(items[i]);
    free(items);
}

void pipeline_free(struct pipeline *pl)
{
    const struct p4_program *g = pl->program;
    if (!g) return;
    tables_free(g, pl->tables);
    for (uint32_t i = 0; pl->registers && i < g->n_registers; i++) free(pl->registers[i].cells);
    free(pl->registers);
    free_each((void **)pl->counters, g->n_counters);
    free_each((void **)pl->meters, g->n_meters);
    for (uint32_t i = 0; pl->value_sets && i < g->n_value_sets; i++) free(atomic_load(&pl->value_sets[i]));
    free((void *)pl->value_sets);
    *pl = (struct pipeline){0};
}
