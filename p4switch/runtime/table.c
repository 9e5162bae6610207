/* Match tables. One structure serves every match kind: entries are grouped by mask, and a group is a hash table from masked value to
 * the entries that share it, best priority first. An exact table is one group (O(1)); an lpm table has a group per prefix length
 * in use, longest first; ternary, range and optional tables have a group per distinct mask (tuple-space search, Srinivasan et al.,
 * SIGCOMM 1999), best priority first, so that a search ends at the first group that cannot win any more. Range keys are not part
 * of the mask: they are compared along the chain.
 *
 * One control thread writes, the data plane reads without locks: see "Publication" in switch.h.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define GRAVE ((struct table_entry *)1)    /* a slot whose entry has gone; probing goes on past it */
#define FEWEST_SLOTS 8

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t hash_words(const uint64_t *words, uint32_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < n; i++) h = mix(h ^ words[i], 0xd6e8feb86659fd93u);
    return h ^ h >> 32;
}

static inline bool same(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */
/* The first entry of the chain whose masked value is `key`, or NULL. */
static inline struct table_entry *probe(const struct slots *s, const uint64_t *key, uint32_t words)
{
    uint64_t hash = hash_words(key, words);
    for (uint64_t i = hash & s->mask;; i = (i + 1) & s->mask) {
        struct table_entry *e = atomic_load_explicit(&s->slot[i].entry, memory_order_acquire);
        if (!e) return NULL;
        if (e != GRAVE && s->slot[i].hash == hash && same(e->words, key, words)) return e;
    }
}

static inline bool in_ranges(const struct table_entry *e, const uint64_t *key, const struct p4_table *t)
{
    const uint64_t *low = e->words + 2 * t->key_words, *high = low + t->key_words;
    for (uint32_t k = 0; k < t->desc->n_keys; k++) {
        const struct p4_key_desc *d = &t->desc->keys[k];
        if (d->match != P4_RANGE) continue;
        for (uint32_t i = P4_WORDS(d->width); i-- > 0;) {  /* most significant word first */
            uint32_t w = d->word + i;
            if (key[w] < low[w]) return false;
            if (key[w] > low[w]) break;
        }
        for (uint32_t i = P4_WORDS(d->width); i-- > 0;) {
            uint32_t w = d->word + i;
            if (key[w] > high[w]) return false;
            if (key[w] < high[w]) break;
        }
    }
    return true;
}

const struct table_entry *table_find(const struct p4_table *t, const uint64_t *key)
{
    if (t->kind == TABLE_EXACT) {
        if (!atomic_load_explicit(&t->only->live, memory_order_acquire)) return NULL;  /* what is off costs next to nothing */
        return probe(atomic_load_explicit(&t->only->slots, memory_order_acquire), key, t->key_words);
    }
    const struct groups *groups = atomic_load_explicit(&t->groups, memory_order_acquire);
    const struct table_entry *best = NULL;
    uint64_t masked[KEY_WORDS];
    for (uint32_t g = 0; g < groups->n; g++) {
        const struct group *group = groups->group[g];
        if (best && best->priority >= group->best) break;
        for (uint32_t i = 0; i < t->key_words; i++) masked[i] = key[i] & group->mask[i];
        const struct table_entry *e =
            probe(atomic_load_explicit(&group->slots, memory_order_acquire), masked, t->key_words);
        if (t->has_ranges)
            while (e && !in_ranges(e, key, t)) e = atomic_load_explicit(&e->below, memory_order_acquire);
        if (!e) continue;
        if (t->kind == TABLE_LPM) return e;
        if (!best || e->priority > best->priority) best = e;
    }
    return best;
}

const struct p4_entry *p4_table_lookup(struct p4_packet *p, uint32_t index, const uint64_t *key)
{
    struct p4_table *t = &p->sw->tables[index];
    const struct table_entry *e = t->kind == TABLE_KEYLESS ? NULL : table_find(t, key);
    if (!e) {
        if (t->miss) {
            publish_word(&t->miss->packets, t->miss->packets + 1);
            publish_word(&t->miss->bytes, t->miss->bytes + p->ingress_length);
        }
        return atomic_load_explicit(&t->fallback, memory_order_acquire);
    }
    if (t->has_stats) {
        publish_word(&e->stats->packets, e->stats->packets + 1);
        publish_word(&e->stats->bytes, e->stats->bytes + p->ingress_length);
        publish_word(&e->stats->last_hit_ns, p->sw->now_ns);
    }
    if (t->has_selector) {
        const struct choices *choices = atomic_load_explicit(&e->choices, memory_order_acquire);
        if (choices) return choose(p, t, choices, key);
    }
    return &e->result;
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */
static bool is_prefix(const uint64_t *mask, uint32_t width)
{
    bool ended = false;
    for (uint32_t bit = width; bit-- > 0;) {
        bool set = mask[bit / 64] >> (bit % 64) & 1;
        if (set && ended) return false;
        ended |= !set;
    }
    return true;
}

static void full_mask(uint64_t *mask, uint32_t width)
{
    for (uint32_t i = 0; i < P4_WORDS(width); i++) mask[i] = ~(uint64_t)0;
    if (width % 64) mask[width / 64] = ((uint64_t)1 << width % 64) - 1;
}

int table_key(const struct p4_table *t, const uint64_t *value, const uint64_t *mask_or_high, int32_t priority,
              struct table_key *out)
{
    const char *table = t->desc->name;
    if (t->kind == TABLE_KEYLESS) return fail(SW_INVALID, "table %s has no key: only its default action can be set", table);
    memset(out, 0, sizeof *out);
    out->priority = t->kind == TABLE_PRIORITY ? priority : 0;
    for (uint32_t k = 0; k < t->desc->n_keys; k++) {
        const struct p4_key_desc *d = &t->desc->keys[k];
        uint32_t words = P4_WORDS(d->width);
        const uint64_t *v = value + d->word, *m = mask_or_high + d->word;
        uint64_t full[KEY_WORDS], *ov = out->value + d->word, *om = out->mask + d->word;
        full_mask(full, d->width);
        for (uint32_t i = 0; i < words; i++)
            if (v[i] & ~full[i] || (d->match != P4_EXACT && m[i] & ~full[i]))
                return fail(SW_INVALID, "table %s: key %s has more than %u bits", table, d->name, d->width);
        bool any = true, all = true;
        switch (d->match) {
        case P4_LPM:
            if (!is_prefix(m, d->width)) return fail(SW_INVALID, "table %s: the mask of lpm key %s is no prefix", table, d->name);
            for (uint32_t i = 0; i < words; i++) out->priority += __builtin_popcountll(m[i]) * (t->kind == TABLE_LPM);
            break;
        case P4_OPTIONAL:
            for (uint32_t i = 0; i < words; i++) {
                any &= m[i] == 0;
                all &= m[i] == full[i];
            }
            if (!any && !all) return fail(SW_INVALID, "table %s: optional key %s is given whole or not at all", table, d->name);
            break;
        case P4_RANGE:
            if (compare_words(v, m, words) > 0) return fail(SW_INVALID, "table %s: range of key %s ends before it begins", table, d->name);
            memcpy(out->low + d->word, v, words * sizeof *v);
            memcpy(out->high + d->word, m, words * sizeof *m);
            break;
        default: break;
        }
        for (uint32_t i = 0; i < words; i++) {
            om[i] = d->match == P4_RANGE || d->match == P4_SELECTOR ? 0 : d->match == P4_EXACT ? full[i] : m[i];
            ov[i] = v[i] & om[i];
        }
    }
    return SW_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */
static struct slots *slots_new(uint64_t n)
{
    struct slots *s = calloc(1, sizeof *s + n * sizeof *s->slot);
    if (s) s->mask = n - 1;
    return s;
}

static void place(struct slots *s, struct table_entry *e)
{
    uint64_t i = e->hash & s->mask;
    while (atomic_load_explicit(&s->slot[i].entry, memory_order_relaxed)) i = (i + 1) & s->mask;
    s->slot[i].hash = e->hash;
    atomic_store_explicit(&s->slot[i].entry, e, memory_order_release);
}

/* Make room for one more entry: a table of slots at most a quarter full, without the graves of the old one. */
static int group_reserve(p4_switch *sw, struct group *g)
{
    struct slots *old = atomic_load(&g->slots);
    if ((g->used + 1) * 2 <= old->mask + 1) return SW_OK;
    uint64_t n = FEWEST_SLOTS;
    while (n < 4 * (uint64_t)(g->live + 1)) n *= 2;
    struct slots *s = slots_new(n);
    if (!s) return fail(SW_SYSTEM, "no memory for a table of %u entries", g->live);
    g->used = 0;
    for (uint64_t i = 0; i <= old->mask; i++) {
        struct table_entry *e = atomic_load(&old->slot[i].entry);
        if (!e || e == GRAVE) continue;
        place(s, e);
        g->used++;
    }
    atomic_store_explicit(&g->slots, s, memory_order_release);
    retire(sw, old);
    return SW_OK;
}

static struct group *group_new(const struct p4_table *t, const uint64_t *mask)
{
    struct group *g = calloc(1, sizeof *g + t->key_words * sizeof(uint64_t));
    struct slots *s = g ? slots_new(FEWEST_SLOTS) : NULL;
    if (!s) {
        free(g);
        return NULL;
    }
    atomic_init(&g->slots, s);
    memcpy(g->mask, mask, t->key_words * sizeof(uint64_t));
    g->best = INT32_MIN;
    return g;
}

/* Publish the list of groups again, sorted, with `added` (may be NULL) and without `removed` (may be NULL). */
static int regroup(p4_switch *sw, struct p4_table *t, struct group *added, struct group *removed)
{
    struct groups *old = atomic_load(&t->groups);
    struct groups *list = malloc(sizeof *list + (old->n + 1) * sizeof *list->group);
    if (!list) return fail(SW_SYSTEM, "no memory for table %s", t->desc->name);
    list->n = 0;
    for (uint32_t i = 0; i < old->n; i++)
        if (old->group[i] != removed) list->group[list->n++] = old->group[i];
    if (added) list->group[list->n++] = added;
    for (uint32_t i = 1; i < list->n; i++) {  /* nearly sorted already */
        struct group *g = list->group[i];
        uint32_t j = i;
        for (; j > 0 && list->group[j - 1]->best < g->best; j--) list->group[j] = list->group[j - 1];
        list->group[j] = g;
    }
    atomic_store_explicit(&t->groups, list, memory_order_release);
    retire(sw, old);
    return SW_OK;
}

static struct group *find_group(const struct p4_table *t, const uint64_t *mask)
{
    if (t->kind == TABLE_EXACT) return t->only;
    const struct groups *groups = atomic_load(&t->groups);
    for (uint32_t i = 0; i < groups->n; i++)
        if (same(groups->group[i]->mask, mask, t->key_words)) return groups->group[i];
    return NULL;
}

static bool has_key(const struct p4_table *t, const struct table_entry *e, const struct table_key *k)
{
    if (e->priority != k->priority) return false;
    const uint64_t *low = e->words + 2 * t->key_words;
    return !t->has_ranges || (same(low, k->low, t->key_words) && same(low + t->key_words, k->high, t->key_words));
}

/* Where the entry with this very key is linked: its predecessor in the chain, or else its slot. */
struct place { struct group *group; struct slot *slot; struct table_entry *above, *entry; };

static struct place locate(const struct p4_table *t, const struct table_key *k)
{
    struct place at = {.group = find_group(t, k->mask)};
    if (!at.group) return at;
    struct slots *s = atomic_load(&at.group->slots);
    uint64_t hash = hash_words(k->value, t->key_words);
    for (uint64_t i = hash & s->mask;; i = (i + 1) & s->mask) {
        struct table_entry *e = atomic_load(&s->slot[i].entry);
        if (!e) return at;
        if (e == GRAVE || s->slot[i].hash != hash || !same(e->words, k->value, t->key_words)) continue;
        at.slot = &s->slot[i];
        for (; e; at.above = e, e = atomic_load(&e->below)) {
            if (!has_key(t, e, k)) continue;
            at.entry = e;
            return at;
        }
        at.above = NULL;
        return at;
    }
}

struct table_entry *table_exact_entry(const struct p4_table *t, const struct table_key *k) { return locate(t, k).entry; }

static struct table_entry *entry_new(const struct p4_program *program, const struct p4_table *t, const struct table_key *k,
                                     uint32_t action, const uint64_t *data)
{
    uint32_t kw = t->key_words, key_part = kw * (t->has_ranges ? 4 : 2);
    uint32_t data_words = program->actions[t->desc->actions[action]].data_words;
    struct table_entry *e = calloc(1, sizeof *e + (key_part + data_words) * sizeof(uint64_t));
    if (!e) return NULL;
    memcpy(e->words, k->value, kw * sizeof(uint64_t));
    memcpy(e->words + kw, k->mask, kw * sizeof(uint64_t));
    if (t->has_ranges) {
        memcpy(e->words + 2 * kw, k->low, kw * sizeof(uint64_t));
        memcpy(e->words + 3 * kw, k->high, kw * sizeof(uint64_t));
    }
    if (data_words) memcpy(e->words + key_part, data, data_words * sizeof(uint64_t));
    e->result = (struct p4_entry){.action = action, .hit = 1, .data = e->words + key_part};
    e->hash = hash_words(k->value, kw);
    e->priority = k->priority;
    return e;
}

int table_insert(p4_switch *sw, const struct p4_program *program, struct p4_table *t, const struct table_key *k, uint32_t action,
                 const uint64_t *data, bool initial, bool constant)
{
    struct place at = locate(t, k);
    if (at.entry) return fail(SW_EXISTS, "table %s already has an entry with this key", t->desc->name);
    if (!initial && t->n_entries - t->n_initial >= t->desc->size)
        return fail(SW_FULL, "table %s is full: it holds %u entries", t->desc->name, t->desc->size);
    struct table_entry *e = entry_new(program, t, k, action, data);
    if (!e || (t->has_stats && !(e->stats = calloc(1, sizeof *e->stats)))) {
        free(e);
        return fail(SW_SYSTEM, "no memory for an entry of table %s", t->desc->name);
    }
    e->serial = t->serial++;
    e->initial = initial;
    e->constant = constant;
    if (e->stats) e->stats->last_hit_ns = clock_ns();
    struct group *g = at.group, *fresh = NULL;
    if (!g) g = fresh = group_new(t, k->mask);
    int status = g ? group_reserve(sw, g) : fail(SW_SYSTEM, "no memory for table %s", t->desc->name);
    if (status) goto failed;
    bool better = k->priority > g->best;
    int32_t best = g->best;
    if (better) g->best = k->priority;
    /* A reader that still has the old order of groups may end its search early and miss the new entry, as if it came before it. */
    if (fresh || (better && t->kind == TABLE_PRIORITY)) {
        status = regroup(sw, t, fresh, NULL);
        if (status) {
            g->best = best;
            goto failed;
        }
    }
    at = locate(t, k);  /* group_reserve may have moved the slots */
    if (at.slot) {
        struct table_entry *above = NULL, *below = atomic_load(&at.slot->entry);
        while (below && below->priority >= e->priority) {
            above = below;
            below = atomic_load(&below->below);
        }
        atomic_init(&e->below, below);
        if (above) atomic_store_explicit(&above->below, e, memory_order_release);
        else atomic_store_explicit(&at.slot->entry, e, memory_order_release);
    } else {
        place(atomic_load(&g->slots), e);
        g->used++;
    }
    g->live++;
    t->n_entries++;
    t->n_initial += initial;
    return SW_OK;
failed:
    if (fresh) free(atomic_load(&fresh->slots));
    free(fresh);
    free(e->stats);
    free(e);
    return status;
}

/* Put `next` in the place of the entry: its successor, or what comes below it. */
static void relink(const struct place *at, struct table_entry *next)
{
    if (at->above) atomic_store_explicit(&at->above->below, next, memory_order_release);
    else atomic_store_explicit(&at->slot->entry, next ? next : GRAVE, memory_order_release);
}

int table_modify(p4_switch *sw, const struct p4_program *program, struct p4_table *t, const struct table_key *k, uint32_t action,
                 const uint64_t *data)
{
    struct place at = locate(t, k);
    if (!at.entry) return fail(SW_MISSING, "table %s has no entry with this key", t->desc->name);
    struct table_entry *e = entry_new(program, t, k, action, data);
    if (!e) return fail(SW_SYSTEM, "no memory for an entry of table %s", t->desc->name);
    e->stats = at.entry->stats;
    e->serial = at.entry->serial;
    e->initial = at.entry->initial;
    atomic_init(&e->below, atomic_load(&at.entry->below));
    relink(&at, e);
    retire(sw, atomic_load(&at.entry->choices));
    retire(sw, at.entry);
    return SW_OK;
}

int table_delete(p4_switch *sw, struct p4_table *t, const struct table_key *k)
{
    struct place at = locate(t, k);
    if (!at.entry) return fail(SW_MISSING, "table %s has no entry with this key", t->desc->name);
    t->n_initial -= at.entry->initial;
    relink(&at, atomic_load(&at.entry->below));
    retire(sw, at.entry->stats);
    retire(sw, atomic_load(&at.entry->choices));
    retire(sw, at.entry);
    t->n_entries--;
    if (--at.group->live == 0 && t->kind != TABLE_EXACT) {
        if (regroup(sw, t, NULL, at.group) == SW_OK) {  /* else it stays, empty */
            retire(sw, atomic_load(&at.group->slots));
            retire(sw, at.group);
        }
    }
    return SW_OK;
}

int table_set_default(p4_switch *sw, const struct p4_program *program, struct p4_table *t, uint32_t action, const uint64_t *data)
{
    uint32_t words = program->actions[t->desc->actions[action]].data_words;
    struct p4_entry *e = malloc(sizeof *e + words * sizeof(uint64_t));
    if (!e) return fail(SW_SYSTEM, "no memory for the default entry of table %s", t->desc->name);
    uint64_t *copy = (uint64_t *)(e + 1);
    if (words) memcpy(copy, data, words * sizeof(uint64_t));
    *e = (struct p4_entry){.action = action, .hit = 0, .data = copy};
    struct p4_entry *old = atomic_exchange(&t->fallback, e);
    retire(sw, old);
    return SW_OK;
}

void table_each(const struct p4_table *t, void (*visit)(const struct p4_table *, const struct table_entry *, void *), void *with)
{
    struct groups *groups = atomic_load(&t->groups);
    uint32_t n = t->kind == TABLE_EXACT ? 1 : t->kind == TABLE_KEYLESS ? 0 : groups->n;
    for (uint32_t g = 0; g < n; g++) {
        struct slots *s = atomic_load(&(t->kind == TABLE_EXACT ? t->only : groups->group[g])->slots);
        for (uint64_t i = 0; i <= s->mask; i++) {
            struct table_entry *e = atomic_load(&s->slot[i].entry);
            if (e == GRAVE) continue;
            for (struct table_entry *below; e; e = below) {
                below = atomic_load(&e->below);  /* the visitor may free e */
                visit(t, e, with);
            }
        }
    }
}

/* ---- life and death ------------------------------------------------------------------------------------------------ */
static int build(p4_switch *sw, const struct p4_program *program, struct p4_table *t, const struct p4_table_desc *d)
{
    bool lpm = false, by_priority = false;
    *t = (struct p4_table){.desc = d, .key_words = d->key_words};
    if (d->key_words > KEY_WORDS)
        return fail(SW_INVALID, "table %s: a key of %u words; the most is %d", d->name, d->key_words, KEY_WORDS);
    t->full = calloc(d->key_words + 1, sizeof *t->full);
    for (uint32_t k = 0; k < d->n_keys; k++) {
        lpm |= d->keys[k].match == P4_LPM || d->keys[k].match == P4_SELECTOR;  /* a selector key is never compared */
        t->has_ranges |= d->keys[k].match == P4_RANGE;
        by_priority |= d->keys[k].match == P4_TERNARY || d->keys[k].match == P4_RANGE || d->keys[k].match == P4_OPTIONAL;
        if (t->full && d->keys[k].match != P4_RANGE) full_mask(t->full + d->keys[k].word, d->keys[k].width);
    }
    t->kind = d->n_keys == 0 ? TABLE_KEYLESS : by_priority ? TABLE_PRIORITY : lpm ? TABLE_LPM : TABLE_EXACT;
    t->has_selector = d->action_profile >= 0 && program->profiles[d->action_profile].selector;
    t->has_stats = d->direct_counter >= 0 || d->direct_meter >= 0 || d->support_timeout;
    bool of_misses = d->direct_counter >= 0 || d->direct_meter >= 0;
    t->miss = of_misses ? calloc(1, sizeof *t->miss) : NULL;
    struct groups *none = calloc(1, sizeof *none);
    atomic_init(&t->groups, none);
    if (t->full && t->kind == TABLE_EXACT) t->only = group_new(t, t->full);
    if (!t->full || !none || (of_misses && !t->miss) || (t->kind == TABLE_EXACT && !t->only)) return fail(SW_SYSTEM, "no memory for table %s", d->name);
    int status = table_set_default(sw, program, t, d->default_action, d->default_data);
    for (uint32_t i = 0; i < d->n_entries && !status; i++) {
        const struct p4_const_entry *c = &d->entries[i];
        struct table_key key;
        status = table_key(t, c->value, c->mask_or_hi, c->priority, &key);
        if (!status) status = table_insert(sw, program, t, &key, c->action, c->data, true, d->entries_const || c->constant);
        if (status == SW_EXISTS) status = SW_OK;  /* the first of two equal entries wins */
    }
    return status;
}

int tables_build(p4_switch *sw, const struct p4_program *program, struct p4_table **out)
{
    *out = calloc(program->n_tables + 1, sizeof **out);
    if (!*out) return fail(SW_SYSTEM, "no memory for %u tables", program->n_tables);
    for (uint32_t i = 0; i < program->n_tables; i++) {
        int status = build(sw, program, &(*out)[i], &program->tables[i]);
        if (!status) continue;
        tables_free(program, *out);
        *out = NULL;
        return status;
    }
    return SW_OK;
}

static void free_entry(const struct p4_table *t, const struct table_entry *e, void *unused)
{
    (void)t;
    (void)unused;
    free(e->stats);
    free(atomic_load(&e->choices));
    free((void *)e);
}

static void free_group(struct group *g)
{
    if (g) free(atomic_load(&g->slots));
    free(g);
}

void tables_free(const struct p4_program *program, struct p4_table *tables)
{
    for (uint32_t i = 0; tables && i < program->n_tables && tables[i].desc; i++) {
        struct p4_table *t = &tables[i];
        struct groups *groups = atomic_load(&t->groups);
        if (groups && (t->kind != TABLE_EXACT || t->only)) table_each(t, free_entry, NULL);
        for (uint32_t g = 0; groups && g < groups->n; g++) free_group(groups->group[g]);
        free_group(t->only);
        free(groups);
        free(atomic_load(&t->fallback));
        free(t->miss);
        free(t->full);
    }
    free(tables);
}
