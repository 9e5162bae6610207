/* The ABI between a compiled P4 program and the runtime.
 *
 * A compiled program is one C file that includes this header and exports `p4_program_get()`. The runtime owns packets, tables,
 * registers, the traffic manager and the ports; the program owns its headers, metadata and locals (the "phv", an opaque block
 * of `phv_size` bytes that travels with the packet) and the code of its six blocks.
 *
 * Words: wherever a value crosses between the program, the runtime and the control plane (table keys, action data, register
 * cells, digests) it is an array of ceil(width / 64) uint64_t, least significant word first, unused high bits zero. Fields of
 * a key or of action data each start at a word of their own.
 */
#ifndef P4RT_H
#define P4RT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "p4program.h"

#define P4_ABI_VERSION 1
#define P4_HEAD_MAX 9216      /* most bytes that a deparser may emit before the payload: the longest frame */
#define P4_DROP_PORT 511      /* egress_spec after mark_to_drop, as on BMv2 */
#define P4_WORDS(width) ((width) ? ((width) + 63) / 64 : 1) /* a value of no bits takes a word as well */

/* v1model's standard_metadata_t, field by field; the emitter maps that struct to this one. */
struct p4_std {
    uint16_t ingress_port, egress_spec, egress_port;
    uint32_t instance_type, packet_length, enq_timestamp, deq_timedelta;
    uint32_t enq_qdepth, deq_qdepth;
    uint64_t ingress_global_timestamp, egress_global_timestamp; /* microseconds, 48 bits */
    uint16_t mcast_grp, egress_rid;
    uint8_t checksum_error, priority, qid;
    uint32_t parser_error;
    uint64_t more[8];                 /* fields that a v1model.p4 of the program's own adds, in its order; nothing sets them */
};

/* ---- a packet ------------------------------------------------------------------------------------------------------ */
enum { P4_ASK_CLONE = 1, P4_ASK_RESUBMIT = 2, P4_ASK_RECIRCULATE = 4, P4_ASK_TRUNCATE = 8 };
struct p4_ask {                       /* what a block asked of the traffic manager; last call wins, as on BMv2 */
    uint32_t flags;
    uint32_t clone_session, clone_list, resubmit_list, recirculate_list, truncate_length;
    /* list 0xffffffff: preserve nothing (clone()) */
};
#define P4_NO_LIST 0xffffffffu
enum { P4_MAX_ROUNDS = 1 << 20 };
struct p4_packet {
    struct p4_std std;
    struct p4_ask ask;
    struct p4_switch *sw;
    uint8_t *data; uint32_t len;      /* as it came in */
    uint32_t ingress_length;          /* what counters and meters count: BMv2's length as received, also in egress */
    int32_t length;                   /* bytes the packet would have now: set to len by the runtime; setValid() and setInvalid()
                                         add and subtract the header's bytes when they change its validity, as on BMv2.
                                         standard_metadata.packet_length takes this value at the start of egress. */
    uint32_t cursor_bits;             /* parser position, bits from data */
    uint8_t *payload; uint32_t payload_len;   /* set by the runtime after parse(): what follows the parsed bytes */
    void *phv;
    uint32_t rounds_left;             /* of all the loops of one pass together: no packet may hold up the switch for ever */
    uint32_t head_len; uint8_t *head; /* deparser's output, goes before payload: P4_HEAD_MAX bytes, which packets share. More
                                         in head_len says that the headers would not fit. */
};

/* ---- what the program calls ---------------------------------------------------------------------------------------- */
struct p4_entry {                     /* the result of a lookup; immutable while visible, but for its counters */
    uint32_t action;                  /* index into the table's actions */
    uint32_t hit;                     /* 0 for the default entry */
    const uint64_t *data;             /* action data in words */
};
struct p4_table;
/* Never NULL: a miss gives the default entry. Counts the direct counter. */
const struct p4_entry *p4_table_lookup(struct p4_packet *, uint32_t table, const uint64_t *key);

/* Cells of a register, word arrays of P4_WORDS(width) each; the program checks index < size itself (out of range: a read gives 0,
 * a write does nothing). Single owner thread: plain loads and stores. */
struct p4_register_state { uint64_t *cells; uint32_t size, words; };
struct p4_register_state *p4_registers(struct p4_packet *);            /* array, index as in the program's registers */

void p4_counter_count(struct p4_packet *, uint32_t counter, uint32_t index);   /* out of range: ignored */
uint32_t p4_meter_execute(struct p4_packet *, uint32_t meter, uint32_t index); /* 0 green 1 yellow 2 red */
/* P4_NO_COLOR on a miss of a table whose default entry has no meter: the field keeps its value, as on BMv2. */
#define P4_NO_COLOR 0xffffffffu
uint32_t p4_direct_meter_read(struct p4_packet *, uint32_t meter, const struct p4_entry *);
bool p4_value_set_match(struct p4_packet *, uint32_t value_set, const uint64_t *key);
uint64_t p4_random(struct p4_packet *);                                  /* 64 uniform bits */
/* Sent after ingress, also when the packet is dropped; the last call in a pass wins; ignored in egress, as on BMv2. */
void p4_digest(struct p4_packet *, uint32_t digest, const uint64_t *words);
/* Several calls: the shortest wins. Applied to the frame as it leaves; clones and replicas are not affected, as on BMv2. */
static inline void p4_truncate(struct p4_packet *p, uint32_t bytes)
{
    if (!(p->ask.flags & P4_ASK_TRUNCATE) || bytes < p->ask.truncate_length) p->ask.truncate_length = bytes;
    p->ask.flags |= P4_ASK_TRUNCATE;
}
void p4_log(struct p4_packet *, const char *text);                         /* log_msg, already formatted */
bool p4_log_enabled(const struct p4_packet *);

/* What a traced build of the program tells of a packet: a step; a value of a step (detail: of something in it); the bits of a
 * varbit; a lookup. In the normal build the compiler never sees the calls. */
#ifdef P4_TRACED
#define P4_TRACE(...) __VA_ARGS__
#else
#define P4_TRACE(...)
#endif
__attribute__((format(printf, 2, 3))) void p4_trace(struct p4_packet *, const char *format, ...);
void p4_trace_value(struct p4_packet *, uint32_t detail, const char *name, uint32_t width, const uint64_t *words);
void p4_trace_bits(struct p4_packet *, uint32_t detail, const char *name, const uint8_t *data, uint32_t bits);
void p4_trace_lookup(struct p4_packet *, uint32_t table, const uint64_t *key, const struct p4_entry *);

/* Checksums over bytes; `crc` style functions take and return a running state so that header bytes and payload can be fed in turn. */
uint32_t p4_crc32_init(void), p4_crc32_add(uint32_t state, const uint8_t *, size_t), p4_crc32_end(uint32_t state);
uint16_t p4_crc16_init(void), p4_crc16_add(uint16_t state, const uint8_t *, size_t), p4_crc16_end(uint16_t state);
/* Internet checksum: odd lengths are padded with a zero byte at the very end only (`odd` carries a pending byte). */
struct p4_csum16 { uint64_t sum; uint32_t odd; };
void p4_csum16_add(struct p4_csum16 *, const uint8_t *, size_t);
uint16_t p4_csum16_end(const struct p4_csum16 *);
#endif
