/* What a compiled program says of itself: plain declarations, so that the C code includes them and dataplane.py hands the same
 * text to cffi. Keep preprocessor lines, macros and inline functions out of the part between the markers. */
#ifndef P4PROGRAM_H
#define P4PROGRAM_H
#include <stdbool.h>
#include <stdint.h>

/* cdef begin */
enum p4_match { P4_EXACT, P4_LPM, P4_TERNARY, P4_RANGE, P4_OPTIONAL, P4_SELECTOR };
enum p4_unit { P4_PACKETS, P4_BYTES, P4_PACKETS_AND_BYTES };

/* ---- what the program says of itself ------------------------------------------------------------------------------- */
struct p4_field_desc { const char *name; uint32_t id, width, word; };                 /* word: its first word */
struct p4_key_desc { const char *name; uint32_t id, width, word; enum p4_match match; };
struct p4_action_desc { const char *name; uint32_t id, n_params, data_words; const struct p4_field_desc *params; };
struct p4_const_entry {               /* all arrays in words, laid out as the table's key / the action's data */
    const uint64_t *value, *mask_or_hi;   /* ternary/optional/lpm: mask; range: high end; exact: all ones */
    uint32_t action;                      /* index into the table's actions */
    const uint64_t *data;
    int32_t priority;                     /* larger wins */
    bool constant;                        /* the control plane may not change it */
};
struct p4_table_desc {
    const char *name; uint32_t id;
    uint32_t n_keys, key_words; const struct p4_key_desc *keys;
    uint32_t n_actions; const uint32_t *actions;          /* indices into p4_program.actions */
    uint32_t default_action; const uint64_t *default_data; bool const_default;   /* index into this table's actions */
    uint32_t size;
    uint32_t n_entries; const struct p4_const_entry *entries; bool entries_const;
    int32_t direct_counter, direct_meter;                 /* index into counters / meters, -1 none */
    int32_t action_profile;                               /* index, -1 none */
    bool support_timeout;
};
struct p4_register_desc { const char *name; uint32_t id, width, size; };
struct p4_counter_desc { const char *name; uint32_t id, size; enum p4_unit unit; int32_t table; };  /* table -1: indirect */
struct p4_meter_desc { const char *name; uint32_t id, size; enum p4_unit unit; int32_t table; };
struct p4_digest_desc { const char *name; uint32_t id, n_fields, words; const struct p4_field_desc *fields; };
enum p4_hash { P4_HASH_CRC16, P4_HASH_CRC32, P4_HASH_CSUM16, P4_HASH_XOR16, P4_HASH_IDENTITY, P4_HASH_RANDOM };
struct p4_profile_desc { const char *name; uint32_t id, size; bool selector; enum p4_hash hash; };
struct p4_value_set_desc { const char *name; uint32_t id, n_fields, words, size; const struct p4_key_desc *fields; };

struct p4_packet;
struct p4_program {
    uint32_t abi_version;
    const char *source;
    uint32_t phv_size;
    uint32_t n_errors; const char *const *errors;
    uint32_t n_actions; const struct p4_action_desc *actions;
    uint32_t n_tables; const struct p4_table_desc *tables;
    uint32_t n_registers; const struct p4_register_desc *registers;
    uint32_t n_counters; const struct p4_counter_desc *counters;
    uint32_t n_meters; const struct p4_meter_desc *meters;
    uint32_t n_digests; const struct p4_digest_desc *digests;
    uint32_t n_profiles; const struct p4_profile_desc *profiles;
    uint32_t n_value_sets; const struct p4_value_set_desc *value_sets;
    /* The six blocks. The runtime clears the phv (phv_clear: headers invalid, metadata zero) and restores the fields of a
     * resubmitted or recirculated packet before parse(). parse() reads data/len, advances cursor_bits, fills the phv, and sets
     * std.parser_error on an error. deparse() writes head/head_len. Control blocks read and write phv and std and leave their
     * wishes in `ask`. All return normally. meta_clear zeroes user metadata only: clones keep their headers but not that. */
    void (*phv_clear)(void *phv);
    void (*meta_clear)(void *phv);
    void (*parse)(struct p4_packet *);
    void (*verify)(struct p4_packet *);
    void (*ingress)(struct p4_packet *);
    void (*egress)(struct p4_packet *);
    void (*compute)(struct p4_packet *);
    void (*deparse)(struct p4_packet *);
    /* Copy the metadata of field list `list` (user metadata and standard metadata fields alike). */
    void (*copy_fields)(uint32_t list, struct p4_packet *to, const struct p4_packet *from);
};
const struct p4_program *p4_program_get(void);
/* cdef end */
#endif
