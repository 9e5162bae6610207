/* What the control plane may ask of a switch. Plain declarations between the markers: dataplane.py hands the same text to cffi.
 *
 * Every function may be called from any thread. Functions that return int give 0 (or a count) or a negative sw_status;
 * sw_error() then says what was wrong, for the calling thread.
 */
#ifndef CONTROL_H
#define CONTROL_H
#include "p4program.h"

/* cdef begin */
enum sw_status {
    SW_OK = 0,
    SW_INVALID = -1,      /* an argument makes no sense: unknown object, index out of range, ... */
    SW_EXISTS = -2,
    SW_MISSING = -3,
    SW_FULL = -4,
    SW_READ_ONLY = -5,    /* const entries, const default action */
    SW_SYSTEM = -6,       /* the operating system refused: sockets, memory, files */
    SW_STATE = -7,        /* not now: no program, already started, ... */
    SW_ENDLESS = -8       /* an injected packet goes round for ever */
};

enum { SW_NONE = 0xffffffff };        /* no CPU port, no event port */

struct sw_options {
    uint32_t device_id;
    uint32_t cpu_port, drop_port, event_port;  /* 9-bit ports; SW_NONE for none (not drop_port) */
    uint32_t tick_us;                          /* a tick frame on event_port every so often; 0: no ticks */
    uint32_t packets;                          /* packets that may wait inside the switch at once */
    uint32_t queue_depth;                      /* of egress queues, in packets, until set otherwise */
    uint32_t recirculate_depth;                /* of the queue of resubmitted and recirculated packets */
    uint32_t priorities;                       /* queues per port, 1 to 8; BMv2's default is 1 */
    uint32_t ring_frames;                      /* receive ring of each port, in frames */
    uint32_t busy_poll;                        /* 1: never sleep */
    uint32_t qdisc_bypass;                     /* 1: PACKET_QDISC_BYPASS */
    uint32_t trace;                            /* 1: tell what happens to each packet, and log_msg() */
    int32_t trace_fd;                          /* where */
    const char *pcap_dir;                      /* NULL: no captures */
};

/* Why frames were dropped, per port: receive reasons at the ingress port, the rest at the egress port. */
enum sw_drop {
    SW_DROP_NO_PROGRAM, SW_DROP_TOO_LONG, SW_DROP_NO_PACKET, SW_DROP_RING_FULL, SW_DROP_INGRESS,
    SW_DROP_QUEUE_FULL, SW_DROP_PRIORITY, SW_DROP_EGRESS, SW_DROP_UNBOUND, SW_DROP_TX_ERROR, SW_DROP_RECIRCULATE_FULL,
    SW_DROP_CPU_FULL, SW_DROP_GIVEN_UP, SW_DROP_REASONS
};

struct sw_port_status {
    uint32_t port;
    char iface[16];                            /* empty: an internal port */
    bool up;
    uint32_t depth, waiting;                   /* packets */
    uint64_t rate_pps, rate_bps;               /* 0: as fast as possible */
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
    uint64_t drops[13];                        /* by sw_drop */
};

struct sw_replica { uint32_t port, rid; };

/* One table update. `word` is where its words begin in the array given with it: key_words of value, key_words of mask (range
 * keys: high end), then the action's data. A mask covers exact keys in full, lpm, ternary and optional keys as said. */
enum sw_op { SW_INSERT = 1, SW_MODIFY = 2, SW_DELETE = 3, SW_DEFAULT = 4 };
struct sw_table_op { uint32_t op, table, action; int32_t priority, status; uint32_t word; };

/* eburst, of a meter with one rate (pir is cir, pburst is cburst), is 0 where there are two, or two colours. */
struct sw_meter_config { bool configured; uint64_t cir, cburst, pir, pburst, eburst; };

typedef struct p4_switch p4_switch;

p4_switch *sw_new(const struct sw_options *);
void sw_free(p4_switch *);
const char *sw_error(void);
/* Load or replace the program. What waits in egress queues leaves at once, by the program that put it there; what goes round inside
 * (recirculated, resubmitted, cloned in egress) is dropped, as its metadata mean nothing to another program. */
int sw_load(p4_switch *, const char *library);
/* Take over the program of a switch that does not run, with its tables, registers, counters, groups and sessions as they are, and
 * give it this one's. No packet meets anything in between; of those that wait inside, the same as at sw_load. carry: registers,
 * counts, meters and times of hits that both programs have are this one's. */
int sw_adopt(p4_switch *, p4_switch *from, bool carry);
const struct p4_program *sw_program(p4_switch *);       /* NULL: none loaded */
/* Between these two, which one thread calls, no packet is worked on: what it does meanwhile takes effect at once. Frames wait in the
 * receive rings, and are lost when those overflow. */
void sw_pause(p4_switch *);
void sw_resume(p4_switch *);
int sw_start(p4_switch *);
int sw_stop(p4_switch *);
uint64_t sw_now_us(p4_switch *);                        /* the clock of the timestamps in standard metadata */

int sw_port_add(p4_switch *, uint32_t port, const char *iface);
int sw_port_remove(p4_switch *, uint32_t port);
int sw_queue_set(p4_switch *, uint32_t port, int64_t depth, int64_t rate_pps, int64_t rate_bps);  /* negative: keep */
int sw_ports(p4_switch *, struct sw_port_status *out, uint32_t capacity);  /* every port that is bound or was ever used */

int sw_table_apply(p4_switch *, struct sw_table_op *ops, uint32_t n, const uint64_t *words, uint64_t n_words);
/* Entries as records of sw_table_stride() words: serial, action, priority, packets, bytes, idle microseconds, 1 for a const one, then value, mask or
 * high, data (zero-filled). Returns the number of entries; writes those that fit. */
int sw_table_stride(p4_switch *, uint32_t table);
int sw_table_get(p4_switch *, const struct sw_table_op *key, const uint64_t *words, uint64_t *record, uint32_t capacity_words);
int64_t sw_table_dump(p4_switch *, uint32_t table, uint64_t *out, uint64_t capacity_words);
/* The table's default: its action's index and data; is_initial: as the program has it. */
int sw_default_get(p4_switch *, uint32_t table, uint32_t *action, uint64_t *data, uint32_t capacity_words, bool *is_initial);
int sw_default_set(p4_switch *, uint32_t table, uint32_t action, const uint64_t *data, uint32_t n_words);
int sw_default_reset(p4_switch *, uint32_t table);
/* What a key would match: 1 and the entry's record, or 0. Counts nothing. */
int sw_table_find(p4_switch *, uint32_t table, const uint64_t *key, uint64_t *record, uint32_t capacity_words);

int sw_counter_read(p4_switch *, uint32_t counter, uint32_t first, uint32_t n, uint64_t *out);  /* packets, bytes each */
int sw_counter_write(p4_switch *, uint32_t counter, uint32_t index, uint64_t packets, uint64_t bytes);
int sw_register_read(p4_switch *, uint32_t reg, uint32_t first, uint32_t n, uint64_t *out);     /* P4_WORDS(width) each */
int sw_register_write(p4_switch *, uint32_t reg, uint32_t first, uint32_t n, const uint64_t *in);
int sw_meter_read(p4_switch *, uint32_t meter, uint32_t index, struct sw_meter_config *);
int sw_meter_write(p4_switch *, uint32_t meter, uint32_t index, const struct sw_meter_config *);
/* What came out of a meter by colour: packets and bytes of green, yellow, red; read into or set from `counts`. */
int sw_meter_counts(p4_switch *, uint32_t meter, uint32_t index, uint64_t counts[6], bool set);
/* Let an entry of a table with a selector choose one of n actions for each packet (indices of the table's actions, their data one
 * after the other) by the hash of its selector keys. A modify takes the choice away again. */
int sw_table_choose(p4_switch *, const struct sw_table_op *key, const uint64_t *words, uint32_t n, const uint32_t *actions,
                    const uint64_t *data, uint64_t data_words);
/* Direct ones; as everywhere, `key` names an entry by its key and priority; with op SW_DEFAULT, the default entry (misses). Its
 * action is not looked at. */
int sw_direct_counter_read(p4_switch *, const struct sw_table_op *key, const uint64_t *words, uint64_t *out);  /* packets, bytes */
int sw_direct_counter_write(p4_switch *, const struct sw_table_op *key, const uint64_t *words, uint64_t packets, uint64_t bytes);
int sw_direct_meter_read(p4_switch *, const struct sw_table_op *key, const uint64_t *words, struct sw_meter_config *);
int sw_direct_meter_write(p4_switch *, const struct sw_table_op *key, const uint64_t *words, const struct sw_meter_config *);
int sw_direct_meter_counts(p4_switch *, const struct sw_table_op *key, const uint64_t *words, uint64_t counts[6], bool set);
int sw_value_set_write(p4_switch *, uint32_t value_set, uint32_t n, const uint64_t *values, const uint64_t *masks);

int sw_multicast_set(p4_switch *, uint32_t group, const struct sw_replica *, uint32_t n);
int sw_multicast_delete(p4_switch *, uint32_t group);
int sw_clone_set(p4_switch *, uint32_t session, const struct sw_replica *, uint32_t n, uint32_t truncate);
int sw_clone_delete(p4_switch *, uint32_t session);

int sw_packet_out(p4_switch *, uint32_t ingress_port, const uint8_t *data, uint32_t len);
/* Frames sent to the CPU port and digests, as records of u32 length, u32 digest index (CPU: 0), bytes; whole records only.
 * Block until there is something, at most timeout_ms; return the bytes written. */
int sw_packet_in_wait(p4_switch *, uint8_t *out, uint32_t capacity, int timeout_ms);
int sw_digest_wait(p4_switch *, uint8_t *out, uint32_t capacity, int timeout_ms);

/* Run one frame, and all that comes of it, to the end, regardless of rates. Outputs as records of u32 port, u32 length, bytes. */
int sw_inject(p4_switch *, uint32_t port, const uint8_t *data, uint32_t len);
int64_t sw_inject_output(p4_switch *, uint8_t *out, uint64_t capacity);  /* of the last sw_inject; returns the bytes needed */

uint32_t sw_checksum(uint32_t which, const uint8_t *, size_t);  /* 0 crc32, 1 crc16, 2 csum16, 3 crc32 without PCLMULQDQ */
/* cdef end */
#endif
