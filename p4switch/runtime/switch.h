/* The inside of the switch, shared by the runtime's own files only.
 *
 * Threads. One data-plane thread runs packets; any thread may call the control functions (control.h). They meet in three ways:
 * - `control`, a mutex among control threads only; the data plane never takes it.
 * - Publication: what the packet path reads (table entries, replication lists) is immutable once visible and reached through an
 *   atomic pointer. Control threads publish a successor and retire() the old one, which is freed once the data plane has begun
 *   another batch (`epoch`).
 * - The gate, for what is not worth that (ports, queues, registers, loading): the data plane holds it while it works, and lets go
 *   between two batches when gate_waiters says that someone wants it, and whenever it sleeps.
 */
#ifndef SWITCH_H
#define SWITCH_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "control.h"
#include "p4rt.h"

#define N_PORTS 512               /* v1model's ports have 9 bits */
#define MAX_PRIORITIES 8
#define MAX_FRAME P4_HEAD_MAX     /* longest frame taken in or sent */
#define HEADROOM 1024             /* before a frame in a packet's own buffer, so that the deparser's output mostly fits */
#define DIGEST_WORDS 64           /* most words of one digest */
#define KEY_WORDS 64              /* most words of one table key */
#define BURST 64                  /* frames per receive burst and per sendmmsg() */
#define MAX_SESSIONS 32768
#define MAX_GROUPS 65536

/* ---- packets ------------------------------------------------------------------------------------------------------- */
struct packet {
    struct packet *next;
    uint8_t *buffer;              /* its own, HEADROOM + MAX_FRAME bytes */
    uint8_t *floor;               /* lowest byte that may be written before the payload: start of buffer or of the ring's frame */
    bool in_egress;
    bool borrowed;                /* data and payload lie in a receive ring: copy before keeping */
    uint32_t number;              /* in traces */
    const char *block;            /* that runs, until a trace has named it */
    int32_t digest;               /* pending digest's index, -1 none */
    uint64_t digest_words[DIGEST_WORDS];
    struct p4_packet p;           /* the phv follows */
};
static inline struct packet *packet_of(struct p4_packet *p) { return (struct packet *)((char *)p - offsetof(struct packet, p)); }

struct pool {
    uint8_t *memory;
    size_t memory_bytes, stride;
    uint32_t total, fresh;        /* packets never used yet begin at `fresh`: untouched memory costs nothing */
    struct packet *free;
    uint32_t in_use;
};
int pool_init(struct pool *, uint32_t packets, uint32_t phv_size);
void pool_free(struct pool *);
struct packet *pool_get(struct pool *);             /* NULL: none left */
void pool_put(struct pool *, struct packet *);

/* ---- publication --------------------------------------------------------------------------------------------------- */
struct retired { void *memory; uint64_t epoch; };
struct graveyard { struct retired *items; size_t n, capacity; };

/* ---- tables -------------------------------------------------------------------------------------------------------- */
enum { METER_COUNTS = 6 };
struct meter {
    bool configured, single_rate;
    uint64_t cir, cburst, pir, pburst;     /* per second; in packets or bytes; of a single rate pburst is the excess burst */
    double committed, peak;                /* tokens; of a single rate `peak` is the excess bucket */
    uint64_t last_ns;
    uint64_t counts[METER_COUNTS];         /* packets and bytes that came out green, yellow, red */
};
struct entry_stats { uint64_t packets, bytes, last_hit_ns; struct meter meter; };  /* the first three are read while written */
static inline void publish_word(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }
static inline uint64_t read_word(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
struct p4_table;
int tables_build(p4_switch *, const struct p4_program *, struct p4_table **out);
void tables_free(const struct p4_program *, struct p4_table *);

/* ---- replication --------------------------------------------------------------------------------------------------- */
struct replication { uint32_t n, truncate; struct sw_replica replica[]; };

/* ---- queues -------------------------------------------------------------------------------------------------------- */
struct queue {
    struct packet *first, *last;
    uint32_t count, depth;
    uint64_t rate_pps, rate_bps;
    uint64_t next_ns;                      /* when the next packet may leave, of a paced queue */
    uint32_t active;                       /* 1 + position in switch.active; 0: empty */
};

/* ---- a ring of byte records between two threads -------------------------------------------------------------------- */
struct record_ring {                       /* one producer, one consumer */
    uint8_t *bytes;
    uint64_t size;                         /* power of two */
    _Atomic uint64_t head, tail;           /* written up to, read up to */
    _Atomic uint32_t sleeping;             /* the consumer waits on `event` */
    int event;
};
int ring_init(struct record_ring *, uint64_t size);
void ring_free(struct record_ring *);
bool ring_put(struct record_ring *, uint32_t tag, const uint8_t *a, uint32_t a_len, const uint8_t *b, uint32_t b_len);
uint32_t ring_take(struct record_ring *, uint8_t *out, uint32_t capacity, uint32_t limit_records);
int ring_wait(struct record_ring *, uint8_t *out, uint32_t capacity, int timeout_ms);
void ring_wake(struct record_ring *);      /* let ring_wait() return, with nothing if there is nothing */

/* ---- ports --------------------------------------------------------------------------------------------------------- */
struct port;                               /* port.c */
struct port_stats { uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, drops[SW_DROP_REASONS]; };

/* ---- a loaded program and its state -------------------------------------------------------------------------------- */
struct counter_cell { uint64_t packets, bytes; };
struct value_set { uint32_t n, words; bool has_ranges; uint64_t pairs[]; };  /* n x (value, mask), of ranges low and high end */
struct pipeline {
    const struct p4_program *program;
    void *library;
    struct p4_table *tables;
    struct p4_register_state *registers;
    struct counter_cell **counters;        /* NULL for direct ones */
    struct meter **meters;
    struct value_set *_Atomic *value_sets;
};
int pipeline_build(p4_switch *, const struct p4_program *, void *library, struct pipeline *out);
void pipeline_free(struct pipeline *);
void carry_state(const struct pipeline *from, struct pipeline *to);  /* registers, counts, meters, as they are now */

/* ---- the switch ---------------------------------------------------------------------------------------------------- */
struct capture { uint8_t *bytes; size_t n, capacity; bool on; };

struct p4_switch {
    /* read or written per frame */
    const struct p4_program *program;
    struct p4_table *tables;
    struct pool pool;
    uint64_t now_ns;                       /* refreshed per batch */
    uint64_t start_ns;
    uint64_t random[2];
    struct packet *recirculated, *recirculated_last;
    uint32_t n_recirculated;
    uint32_t n_active, active[N_PORTS * MAX_PRIORITIES];
    struct queue *queues;                  /* [port * priorities + priority] */
    struct port *ports[N_PORTS];           /* bound ones, by number */
    struct port *bound[N_PORTS];           /* the same, without gaps */
    uint32_t n_bound;
    struct port_stats stats[N_PORTS];
    struct replication *_Atomic *sessions, *_Atomic *groups;
    struct capture capture;
    uint8_t head[P4_HEAD_MAX];             /* where deparsers write; the frame is put together right after */
    uint32_t numbered;                     /* packets that traces have told of */
    uint64_t passes;                       /* ingress and egress passes, to bound sw_inject */
    struct pipeline pipeline;
    struct sw_options options;
    char *pcap_dir;

    struct record_ring packet_in, digests, packet_out;
    pthread_mutex_t packet_out_producer;

    pthread_mutex_t control;
    struct graveyard graveyard;
    _Atomic uint64_t epoch;                /* odd: a batch is being worked on */
    pthread_mutex_t gate;
    _Atomic uint32_t gate_waiters;

    pthread_t thread;
    bool started;
    _Atomic bool stop;
    int poll, wake, netlink;               /* epoll, eventfd, rtnetlink */
    uint64_t next_tick_ns;
};

/* trace.c; callers ask traced() first */
static inline bool traced(const p4_switch *sw) { return __builtin_expect(sw->options.trace, 0); }
void trace_number(p4_switch *, struct packet *);               /* a packet that was not there before */
__attribute__((format(printf, 3, 4))) void trace_event(p4_switch *, const struct packet *, const char *format, ...);
void trace_parsed(p4_switch *, struct packet *);
const char *trace_reason(enum sw_drop);
void trace_lost(p4_switch *, uint32_t port, enum sw_drop, uint32_t frames);
void trace_frame(p4_switch *, const struct packet *, uint32_t port, const uint8_t *frame, uint32_t len);

/* reclaim.c */
void retire(p4_switch *, void *);          /* control held; NULL is fine */
void reclaim(p4_switch *, bool all);
void gate_enter(p4_switch *);
void gate_leave(p4_switch *);

/* reclaim.c: remember a message for sw_error() and return the status */
__attribute__((format(printf, 2, 3))) int fail(int status, const char *format, ...);

/* externs.c */
uint32_t meter_execute(struct meter *, uint64_t now_ns, uint64_t cost, uint64_t bytes);
void meter_configure(struct meter *, const struct sw_meter_config *, uint64_t now_ns);
void meter_describe(const struct meter *, struct sw_meter_config *);
void meter_counts(struct meter *, uint64_t counts[METER_COUNTS], bool set);

/* traffic.c */
void traffic_receive(p4_switch *, uint32_t port, uint8_t *data, uint32_t len, uint8_t *floor);  /* floor NULL: copy data */
void traffic_recirculated(p4_switch *);                        /* those that wait now */
uint32_t traffic_serve(p4_switch *, bool ignore_rates);        /* egress queues; returns the packets served */
uint64_t traffic_next_due(p4_switch *);                        /* when the next paced packet may leave; UINT64_MAX: nothing waits */
void traffic_finish(p4_switch *);                              /* let what waits leave, before another program comes; drop the rest */
void traffic_flush(p4_switch *);                               /* drop everything that waits */
/* Count what was lost before it was a packet, or without one. */
static inline void drop(p4_switch *sw, uint32_t port, enum sw_drop reason, uint32_t frames)
{
    sw->stats[port & (N_PORTS - 1)].drops[reason] += frames;
    if (traced(sw) && frames) trace_lost(sw, port, reason, frames);
}

/* port.c; the gate is held, or this is the data-plane thread */
uint32_t port_receive(p4_switch *, struct port *, uint32_t most);  /* returns the frames taken */
void port_send(p4_switch *, struct port *, uint8_t *frame, uint32_t len, struct packet *);  /* the packet is consumed */
void port_flush_all(p4_switch *);                              /* hand over what port_send collected; always before the gate opens */
void port_finish(struct port *);                               /* then give the ring's frames back */
int port_attach(p4_switch *, struct port *);                   /* put it under the event loop's epoll */
void port_clear_error(struct port *);
void port_flush_captures(struct port *);
/* The kernel says that an interface is there (flags as in struct ifinfomsg; MTU 0: not said) or has gone. */
void port_link_changed(p4_switch *, int ifindex, const char *iface, uint32_t flags, uint32_t mtu, bool gone);
void port_announce(p4_switch *, const struct port *);          /* a port-status frame on the event port */
void port_announce_all(p4_switch *);

/* pcap.c */
struct pcap;
struct pcap *pcap_create(const char *dir, uint32_t port, const char *direction);  /* NULL: see sw_error() */
void pcap_write(struct pcap *, const uint8_t *frame, uint32_t len);
void pcap_flush(struct pcap *);
void pcap_close(struct pcap *);

/* control.c */
uint64_t clock_ns(void);

/* loop.c */
void loop_wake(p4_switch *);
#endif
