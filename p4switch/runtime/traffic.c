/* The traffic manager: what becomes of a packet before, between and after the blocks of the program. The order of things is that of
 * BMv2's simple_switch.
 *
 * After ingress: clone, digest, resubmit, else multicast, else drop, else unicast. After egress: clone, drop, deparse, recirculate
 * or transmit. Clones, resubmitted and recirculated packets start with metadata zero but for their field list.
 *
 * A packet that meets an empty, unpaced queue goes straight on to egress, so that a frame is normally worked on from receive to
 * transmit in one go, in place in its receive ring. Everything that has to wait is copied into a buffer of its own. Clones made in
 * egress always wait for the next round, so that no program can keep the switch from its other work.
 */
#include <stdlib.h>
#include <string.h>

#include "switch.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum { INSTANCE_NORMAL, INSTANCE_INGRESS_CLONE, INSTANCE_EGRESS_CLONE, INSTANCE_RECIRCULATED = 4, INSTANCE_REPLICATED,
       INSTANCE_RESUBMITTED };
#define SLACK_NS 4000000              /* a paced queue that is served late catches up, by this much at most: a time slice */

static void ingress(p4_switch *sw, struct packet *k);
static void egress(p4_switch *sw, struct packet *k, uint32_t port, struct queue *q);

static uint64_t microseconds(const p4_switch *sw) { return (sw->now_ns - sw->start_ns) / 1000; }

static void discard(p4_switch *sw, struct packet *k, uint32_t port, enum sw_drop reason)
{
    sw->stats[port & (N_PORTS - 1)].drops[reason]++;
    if (traced(sw)) trace_event(sw, k, "dropped at port %u: %s", port, trace_reason(reason));
    pool_put(&sw->pool, k);
}

/* ---- packets ------------------------------------------------------------------------------------------------------- */
/* A packet whose frame is data[0..len), with everything else zero; NULL when the pool is empty. */
static struct packet *packet_new(p4_switch *sw, uint32_t port)
{
    struct packet *k = pool_get(&sw->pool);
    if (!k) {
        drop(sw, port, SW_DROP_NO_PACKET, 1);
        return NULL;
    }
    k->p.sw = sw;
    if (traced(sw)) trace_number(sw, k);
    k->p.cursor_bits = 0;
    k->p.std = (struct p4_std){0};
    sw->program->phv_clear(k->p.phv);
    return k;
}

static void set_frame(struct packet *k, uint8_t *data, uint32_t len)
{
    k->p.data = data;
    k->p.len = len;
    k->p.length = (int32_t)len;
    k->p.ingress_length = len;
}

/* Copy into the packet's own buffer. With AddressSanitizer, nothing may read behind these bytes. */
static uint8_t *own_bytes(struct packet *k, const uint8_t *data, uint32_t len)
{
    uint8_t *to = k->buffer + HEADROOM;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(k->buffer, HEADROOM + MAX_FRAME);
    __asan_poison_memory_region(to + len, MAX_FRAME - len);
#endif
    return memcpy(to, data, len);
}

static void copy_frame(struct packet *k, const uint8_t *data, uint32_t len)
{
    own_bytes(k, data, len);
    set_frame(k, k->buffer + HEADROOM, len);
}

/* Take the payload out of the receive ring, so that the packet may wait. */
static void keep(struct packet *k)
{
    if (!k->borrowed) return;
    k->p.payload = own_bytes(k, k->p.payload, k->p.payload_len);
    k->p.data = NULL;  /* the parsed bytes are gone; egress has no use for them */
    k->floor = k->buffer;
    k->borrowed = false;
}

/* Move the payload, which is in the packet's own buffer, so that `bytes` fit before it; together they are a frame at most. */
static void make_room(struct packet *k, uint32_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(k->buffer, HEADROOM + MAX_FRAME);
#endif
    k->p.payload = memmove(k->buffer + bytes, k->p.payload, k->p.payload_len);
    k->p.data = NULL;
}

/* A copy with headers, metadata and payload, for the egress side. */
static struct packet *duplicate(p4_switch *sw, const struct packet *from, uint32_t port)
{
    struct packet *k = pool_get(&sw->pool);
    if (!k) {
        drop(sw, port, SW_DROP_NO_PACKET, 1);
        return NULL;
    }
    k->p.sw = sw;
    if (traced(sw)) trace_number(sw, k);
    k->p.std = from->p.std;
    k->p.data = NULL;
    k->p.len = from->p.len;
    k->p.ingress_length = from->p.ingress_length;
    k->p.length = from->p.length;
    k->p.cursor_bits = from->p.cursor_bits;
    k->p.payload = own_bytes(k, from->p.payload, from->p.payload_len);
    k->p.payload_len = from->p.payload_len;
    memcpy(k->p.phv, from->p.phv, sw->program->phv_size);
    return k;
}

static void parse(p4_switch *sw, struct packet *k)
{
    struct p4_packet *p = &k->p;
    p->std.parser_error = 0;
    p->rounds_left = P4_MAX_ROUNDS;
    k->block = "parser";
    sw->program->parse(p);
    uint32_t parsed = (p->cursor_bits + 7) / 8;
    if (parsed > p->len) parsed = p->len;
    p->payload = p->data + parsed;
    p->payload_len = p->len - parsed;
    if (traced(sw)) trace_parsed(sw, k);
}

static void restore_fields(p4_switch *sw, struct packet *to, const struct packet *from, uint32_t list)
{
    if (list != P4_NO_LIST) sw->program->copy_fields(list, &to->p, &from->p);
}

/* Write the frame out of headers and payload, in place where there is room. Returns its length, 0 when it is too long. */
static uint32_t deparse(p4_switch *sw, struct packet *k, uint8_t **frame)
{
    struct p4_packet *p = &k->p;
    k->block = "compute checksums";
    sw->program->compute(p);
    k->block = "deparser";
    p->head = sw->head;
    p->head_len = 0;
    sw->program->deparse(p);
    uint32_t len = p->head_len + p->payload_len;
    if (len > MAX_FRAME) return 0;
    if (p->payload - k->floor < (ptrdiff_t)p->head_len) keep(k);
    if (p->payload - k->floor < (ptrdiff_t)p->head_len) make_room(k, p->head_len);
    *frame = p->payload - p->head_len;
    memcpy(*frame, p->head, p->head_len);
    return len;
}

/* ---- queues -------------------------------------------------------------------------------------------------------- */
static void activate(p4_switch *sw, struct queue *q)
{
    sw->active[sw->n_active++] = (uint32_t)(q - sw->queues);
    q->active = sw->n_active;
}

static void deactivate(p4_switch *sw, struct queue *q)
{
    uint32_t last = sw->active[--sw->n_active];
    sw->active[q->active - 1] = last;
    sw->queues[last].active = q->active;
    q->active = 0;
}

/* Into the egress queue of `port`; `straight`: may pass to egress at once when nothing holds it. */
static void enqueue(p4_switch *sw, struct packet *k, uint32_t port, bool straight)
{
    struct p4_std *std = &k->p.std;
    port &= N_PORTS - 1;
    if (std->priority >= sw->options.priorities) {
        discard(sw, k, port, SW_DROP_PRIORITY);
        return;
    }
    struct queue *q = &sw->queues[port * sw->options.priorities + std->priority];
    std->enq_timestamp = (uint32_t)microseconds(sw);
    std->enq_qdepth = q->count;
    if (straight && q->count == 0 && !(q->rate_pps | q->rate_bps)) {
        egress(sw, k, port, q);
        return;
    }
    if (q->count >= q->depth) {
        discard(sw, k, port, SW_DROP_QUEUE_FULL);
        return;
    }
    keep(k);
    k->next = NULL;
    if (q->last) q->last->next = k;
    else q->first = k;
    q->last = k;
    if (q->count++) return;
    activate(sw, q);
    if (q->next_ns < sw->now_ns) q->next_ns = sw->now_ns;  /* no credit for having been idle */
}

static struct packet *dequeue(p4_switch *sw, struct queue *q)
{
    struct packet *k = q->first;
    q->first = k->next;
    if (!q->first) q->last = NULL;
    if (--q->count == 0) deactivate(sw, q);
    return k;
}

/* When the queue may send again, after a packet of so many bytes on the wire. */
static void pace(const p4_switch *sw, struct queue *q, uint32_t bytes)
{
    uint64_t gap = 0;
    if (q->rate_pps) gap = 1000000000u / q->rate_pps;
    if (q->rate_bps) {
        uint64_t serial = (uint64_t)bytes * 8 * 1000000000u / q->rate_bps;
        if (serial > gap) gap = serial;
    }
    uint64_t earliest = sw->now_ns > SLACK_NS ? sw->now_ns - SLACK_NS : 0;
    if (q->next_ns < earliest) q->next_ns = earliest;
    q->next_ns += gap;
}

static bool priority_above_waits(p4_switch *sw, const struct queue *q)
{
    uint32_t n = sw->options.priorities, priority = (uint32_t)(q - sw->queues) % n;
    for (uint32_t i = 1; priority + i < n; i++)
        if (q[i].count && (!(q[i].rate_pps | q[i].rate_bps) || q[i].next_ns <= sw->now_ns)) return true;
    return false;
}

uint32_t traffic_serve(p4_switch *sw, bool ignore_rates)
{
    uint32_t served = 0, i = 0;
    for (uint32_t left = sw->n_active; left && i < sw->n_active; left--) {
        struct queue *q = &sw->queues[sw->active[i]];
        uint32_t port = (uint32_t)(q - sw->queues) / sw->options.priorities;
        bool paced = q->rate_pps | q->rate_bps;
        uint32_t most = q->count < BURST ? q->count : BURST;
        if (sw->options.priorities > 1 && !ignore_rates && priority_above_waits(sw, q)) most = 0;
        for (; most && (ignore_rates || !paced || q->next_ns <= sw->now_ns); most--, served++) egress(sw, dequeue(sw, q), port, q);
        if (q->active == i + 1) i++;  /* else it ran empty, and deactivate() put another one here */
    }
    return served;
}

uint64_t traffic_next_due(p4_switch *sw)
{
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < sw->n_active; i++) {
        const struct queue *q = &sw->queues[sw->active[i]];
        uint64_t at = q->rate_pps | q->rate_bps ? q->next_ns : 0;
        if (at < due) due = at;
    }
    if (sw->n_recirculated) due = 0;
    return due;
}

void traffic_flush(p4_switch *sw)
{
    while (sw->n_active) {
        uint32_t port = sw->active[0] / sw->options.priorities;
        discard(sw, dequeue(sw, &sw->queues[sw->active[0]]), port, SW_DROP_GIVEN_UP);
    }
    for (struct packet *k = sw->recirculated, *next; k; k = next) {
        next = k->next;
        discard(sw, k, k->p.std.ingress_port, SW_DROP_GIVEN_UP);
    }
    sw->recirculated = sw->recirculated_last = NULL;
    sw->n_recirculated = 0;
}

void traffic_finish(p4_switch *sw)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < sw->n_active; i++) waiting += sw->queues[sw->active[i]].count;
    sw->now_ns = clock_ns();
    while (sw->n_active) {  /* copies that egress makes meanwhile are no longer among those that waited */
        uint32_t served = traffic_serve(sw, true);
        if (served >= waiting) break;
        waiting -= served;
    }
    port_flush_all(sw);
    traffic_flush(sw);
}

/* ---- copies -------------------------------------------------------------------------------------------------------- */
/* One packet per replica to its queue; the packet itself is the last. */
static void replicate(p4_switch *sw, struct packet *k, const struct replication *to, bool straight)
{
    for (uint32_t i = 0; i < to->n; i++) {
        const struct sw_replica *r = &to->replica[i];
        struct packet *copy = i + 1 < to->n ? duplicate(sw, k, r->port) : k;
        if (!copy) continue;
        if (traced(sw)) {
            if (copy == k) trace_event(sw, k, "to port %u, instance %u", r->port, r->rid);
            else trace_event(sw, copy, "a copy of packet %u, to port %u, instance %u", k->number, r->port, r->rid);
        }
        copy->p.std.egress_rid = (uint16_t)r->rid;
        enqueue(sw, copy, r->port, straight);
    }
    if (!to->n) pool_put(&sw->pool, k);
}

/* A session's packet length limits what is copied of the packet, headers included. */
static void shorten(struct packet *k, uint32_t limit)
{
    if (!limit || k->p.length <= (int32_t)limit) return;
    uint32_t cut = (uint32_t)k->p.length - limit;
    if (cut > k->p.payload_len) cut = k->p.payload_len;
    k->p.payload_len -= cut;
    k->p.length -= (int32_t)cut;
}

static const struct replication *session_of(p4_switch *sw, struct packet *k)
{
    k->p.ask.flags &= ~(uint32_t)P4_ASK_CLONE;
    uint32_t id = k->p.ask.clone_session;
    const struct replication *session = id < MAX_SESSIONS ? atomic_load_explicit(&sw->sessions[id], memory_order_acquire) : NULL;
    if (traced(sw) && !session) trace_event(sw, k, "no clone: there is no session %u", id);
    return session;
}

/* The bytes as they came in, parsed anew; of the metadata only the field list. */
static void clone_ingress(p4_switch *sw, struct packet *k)
{
    const struct replication *session = session_of(sw, k);
    if (!session) return;
    struct packet *copy = packet_new(sw, k->p.std.ingress_port);
    if (!copy) return;
    if (traced(sw)) trace_event(sw, copy, "a clone of packet %u as it came in, session %u", k->number, k->p.ask.clone_session);
    copy_frame(copy, k->p.data, k->p.len);
    copy->p.std.ingress_port = k->p.std.ingress_port;  /* parsers may select on it */
    parse(sw, copy);
    copy->p.length = (int32_t)k->p.len;
    copy->p.std = (struct p4_std){0};
    sw->program->meta_clear(copy->p.phv);
    restore_fields(sw, copy, k, k->p.ask.clone_list);
    copy->p.std.instance_type = INSTANCE_INGRESS_CLONE;
    shorten(copy, session->truncate);
    replicate(sw, copy, session, true);
}

/* The headers as they are now; of the metadata only the field list. */
static void clone_egress(p4_switch *sw, struct packet *k, uint32_t port)
{
    const struct replication *session = session_of(sw, k);
    struct packet *copy = session ? duplicate(sw, k, port) : NULL;
    if (!copy) return;
    if (traced(sw)) trace_event(sw, copy, "a clone of packet %u as it is now, session %u", k->number, k->p.ask.clone_session);
    copy->p.std = (struct p4_std){0};
    sw->program->meta_clear(copy->p.phv);
    restore_fields(sw, copy, k, k->p.ask.clone_list);
    copy->p.std.instance_type = INSTANCE_EGRESS_CLONE;
    shorten(copy, session->truncate);
    replicate(sw, copy, session, false);
}

/* Back to the parser: the frame is in the packet's own buffer, `from` gives the field list. */
static void go_round(p4_switch *sw, struct packet *k, const struct packet *from, uint32_t list, uint32_t instance)
{
    restore_fields(sw, k, from, list);
    k->p.std.instance_type = instance;
    k->p.std.packet_length = k->p.len;
    if (traced(sw))
        trace_event(sw, k, "packet %u %s, %u bytes", from->number, instance == INSTANCE_RESUBMITTED ? "resubmitted" : "recirculated",
                    k->p.len);
    if (sw->n_recirculated >= sw->options.recirculate_depth) {
        discard(sw, k, from->p.std.egress_port, SW_DROP_RECIRCULATE_FULL);
        return;
    }
    if (sw->recirculated_last) sw->recirculated_last->next = k;
    else sw->recirculated = k;
    sw->recirculated_last = k;
    sw->n_recirculated++;
}

void traffic_recirculated(p4_switch *sw)
{
    for (uint32_t n = sw->n_recirculated; n; n--) {
        struct packet *k = sw->recirculated;
        sw->recirculated = k->next;
        if (!sw->recirculated) sw->recirculated_last = NULL;
        sw->n_recirculated--;
        ingress(sw, k);
    }
}

/* ---- the way of a packet ------------------------------------------------------------------------------------------- */
void traffic_receive(p4_switch *sw, uint32_t port, uint8_t *data, uint32_t len, uint8_t *floor)
{
    struct port_stats *stats = &sw->stats[port];
    stats->rx_packets++;
    stats->rx_bytes += len;
    if (!sw->program || len > MAX_FRAME) {
        drop(sw, port, sw->program ? SW_DROP_TOO_LONG : SW_DROP_NO_PROGRAM, 1);
        return;
    }
    struct packet *k = packet_new(sw, port);
    if (!k) return;
    if (floor) {
        set_frame(k, data, len);
        k->floor = floor;
        k->borrowed = true;
    } else {
        copy_frame(k, data, len);
    }
    k->p.std.ingress_port = (uint16_t)port;
    k->p.std.packet_length = len;
    k->p.std.ingress_global_timestamp = microseconds(sw);
    if (traced(sw)) trace_event(sw, k, "in by port %u, %u byte%s", port, len, len == 1 ? "" : "s");
    ingress(sw, k);
}

static void ingress(p4_switch *sw, struct packet *k)
{
    const struct p4_program *program = sw->program;
    struct p4_packet *p = &k->p;
    sw->passes++;
    parse(sw, k);
    p->std.checksum_error = 0;
    k->block = "verify checksums";
    program->verify(p);
    k->block = "ingress";
    program->ingress(p);

    if (p->ask.flags & P4_ASK_CLONE) clone_ingress(sw, k);
    if (k->digest >= 0) {
        if (traced(sw)) trace_event(sw, k, "sends digest %s", program->digests[k->digest].name);
        uint32_t bytes = program->digests[k->digest].words * (uint32_t)sizeof(uint64_t);
        if (!ring_put(&sw->digests, (uint32_t)k->digest, (const uint8_t *)k->digest_words, bytes, NULL, 0))
            drop(sw, p->std.ingress_port, SW_DROP_CPU_FULL, 1);
        k->digest = -1;
    }
    if (p->ask.flags & P4_ASK_RESUBMIT) {
        struct packet *again = packet_new(sw, p->std.ingress_port);
        if (again) {
            copy_frame(again, p->data, p->len);
            go_round(sw, again, k, p->ask.resubmit_list, INSTANCE_RESUBMITTED);
        }
        pool_put(&sw->pool, k);
        return;
    }
    if (p->std.mcast_grp) {
        const struct replication *group = atomic_load_explicit(&sw->groups[p->std.mcast_grp], memory_order_acquire);
        p->ask.flags = 0;
        p->std.instance_type = INSTANCE_REPLICATED;
        if (traced(sw)) trace_event(sw, k, "to multicast group %u%s", p->std.mcast_grp, group ? "" : ", which is not there");
        if (group) replicate(sw, k, group, true);
        else discard(sw, k, p->std.ingress_port, SW_DROP_INGRESS);
        return;
    }
    if (p->std.egress_spec == sw->options.drop_port) {
        discard(sw, k, p->std.ingress_port, SW_DROP_INGRESS);
        return;
    }
    p->std.instance_type = INSTANCE_NORMAL;
    if (traced(sw)) trace_event(sw, k, "to port %u", p->std.egress_spec);
    enqueue(sw, k, p->std.egress_spec, true);
}

static void recirculate(p4_switch *sw, struct packet *k, uint32_t port)
{
    uint8_t *frame;
    uint32_t len = deparse(sw, k, &frame);
    struct packet *again = len ? packet_new(sw, port) : NULL;
    if (again) {
        copy_frame(again, frame, len);
        go_round(sw, again, k, k->p.ask.recirculate_list, INSTANCE_RECIRCULATED);
    }
    if (len) pool_put(&sw->pool, k);
    else discard(sw, k, port, SW_DROP_TOO_LONG);
}

static void capture(p4_switch *sw, uint32_t port, const uint8_t *frame, uint32_t len)
{
    struct capture *c = &sw->capture;
    uint32_t header[2] = {port, len};
    if (c->n + sizeof header + len > c->capacity) {
        size_t capacity = (c->n + sizeof header + len) * 2;
        uint8_t *bytes = realloc(c->bytes, capacity);
        if (!bytes) return;
        c->bytes = bytes;
        c->capacity = capacity;
    }
    memcpy(c->bytes + c->n, header, sizeof header);
    memcpy(c->bytes + c->n + sizeof header, frame, len);
    c->n += sizeof header + len;
}

static void transmit(p4_switch *sw, struct packet *k, uint32_t port)
{
    struct port *out = sw->ports[port];
    bool cpu = port == sw->options.cpu_port;
    uint8_t *frame;
    if (!out && !cpu && !sw->capture.on) {
        discard(sw, k, port, SW_DROP_UNBOUND);
        return;
    }
    uint32_t len = deparse(sw, k, &frame);
    if (k->p.ask.flags & P4_ASK_TRUNCATE && k->p.ask.truncate_length < len) len = k->p.ask.truncate_length;
    if (!len) {
        discard(sw, k, port, SW_DROP_TOO_LONG);
        return;
    }
    if (traced(sw)) trace_frame(sw, k, port, frame, len);
    if (sw->capture.on) {
        capture(sw, port, frame, len);
    } else if (cpu) {
        if (!ring_put(&sw->packet_in, 0, frame, len, NULL, 0)) {
            discard(sw, k, port, SW_DROP_CPU_FULL);
            return;
        }
    } else {
        port_send(sw, out, frame, len, k);
        return;
    }
    sw->stats[port].tx_packets++;
    sw->stats[port].tx_bytes += len;
    pool_put(&sw->pool, k);
}

static void egress(p4_switch *sw, struct packet *k, uint32_t port, struct queue *q)
{
    struct p4_packet *p = &k->p;
    uint64_t now = microseconds(sw);
    sw->passes++;
    k->in_egress = true;
    p->std.egress_global_timestamp = now;
    p->std.deq_timedelta = (uint32_t)now - p->std.enq_timestamp;
    p->std.deq_qdepth = q->count;
    p->std.qid = p->std.priority;
    p->std.egress_port = (uint16_t)port;
    p->std.egress_spec = 0;  /* BMv2: anything but the drop port */
    p->std.packet_length = (uint32_t)p->length;
    if (q->rate_pps | q->rate_bps) pace(sw, q, (uint32_t)p->length);
    p->rounds_left = P4_MAX_ROUNDS;
    k->block = "egress";
    sw->program->egress(p);

    if (p->ask.flags & P4_ASK_CLONE) clone_egress(sw, k, port);
    if (p->std.egress_spec == sw->options.drop_port) discard(sw, k, port, SW_DROP_EGRESS);
    else if (p->ask.flags & P4_ASK_RECIRCULATE) recirculate(sw, k, port);
    else transmit(sw, k, port);
}
