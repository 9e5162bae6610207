/* Match tables: how entries are laid out. table.c looks up and updates; table_control.c is the control plane's view. */
#ifndef TABLE_H
#define TABLE_H
#include "switch.h"

/* Compare numbers of several words, the most significant last. */
static inline int compare_words(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    for (uint32_t i = words; i-- > 0;)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* An entry, immutable while visible but for `below`. `words`: masked value, mask, then (tables with range keys) low and high ends,
 * zero for other keys, then the action's data. */
struct table_entry {
    struct p4_entry result;
    uint64_t hash;
    struct table_entry *_Atomic below;     /* the same masked value, priority not higher */
    struct entry_stats *stats;             /* NULL unless the table counts, meters or times its entries; outlives a modify */
    struct choices *_Atomic choices;       /* NULL unless the entry leaves its action to a hash of the packet: selector.c */
    uint64_t serial;                       /* order of insertion */
    int32_t priority;
    bool initial, constant;                /* given by the program; and not to be changed */
    uint64_t words[];
};

/* Actions of which each packet takes one; of none at all, nothing is done. Their data stands behind them. */
struct choices { uint32_t n; struct p4_entry result[]; };

struct slot { uint64_t hash; struct table_entry *_Atomic entry; };
struct slots { uint64_t mask; struct slot slot[]; };       /* open addressing, linear probing, at most half full */

/* All entries with the same mask: a tuple of tuple-space search. Exact tables have one group, lpm tables one per prefix length. */
struct group {
    struct slots *_Atomic slots;
    uint32_t used;                         /* slots that are not empty */
    _Atomic uint32_t live;                 /* entries */
    int32_t best;                          /* highest priority among its entries, or the prefix length */
    uint64_t mask[];
};
struct groups { uint32_t n; struct group *group[]; };      /* by `best`, highest first */

enum table_kind { TABLE_KEYLESS, TABLE_EXACT, TABLE_LPM, TABLE_PRIORITY };
struct p4_table {
    const struct p4_table_desc *desc;
    enum table_kind kind;
    uint32_t key_words;
    bool has_ranges, has_stats, has_selector;
    uint64_t *full;                        /* mask of the key's valid bits; zero for range keys */
    uint32_t n_entries, n_initial;         /* the program's own entries take no room */
    uint64_t serial;
    struct group *only;                    /* of an exact table */
    struct groups *_Atomic groups;         /* of the others */
    struct p4_entry *_Atomic fallback;     /* default entry, its data behind it */
    struct entry_stats *miss;              /* of the default entry; NULL unless the table counts or meters its entries */
};

const struct table_entry *table_find(const struct p4_table *, const uint64_t *key);
const struct p4_entry *choose(struct p4_packet *, const struct p4_table *, const struct choices *, const uint64_t *key);

/* A table update, checked: value and mask canonical, low and high NULL unless the table has range keys. */
struct table_key { uint64_t value[KEY_WORDS], mask[KEY_WORDS], low[KEY_WORDS], high[KEY_WORDS]; int32_t priority; };
int table_key(const struct p4_table *, const uint64_t *value, const uint64_t *mask_or_high, int32_t priority, struct table_key *);
struct table_entry *table_exact_entry(const struct p4_table *, const struct table_key *);  /* the entry that has this very key */
int table_insert(p4_switch *, const struct p4_program *, struct p4_table *, const struct table_key *, uint32_t action,
                 const uint64_t *data, bool initial, bool constant);
int table_modify(p4_switch *, const struct p4_program *, struct p4_table *, const struct table_key *, uint32_t action,
                 const uint64_t *data);
int table_delete(p4_switch *, struct p4_table *, const struct table_key *);
int table_set_default(p4_switch *, const struct p4_program *, struct p4_table *, uint32_t action, const uint64_t *data);
void table_each(const struct p4_table *, void (*visit)(const struct p4_table *, const struct table_entry *, void *), void *);
#endif
