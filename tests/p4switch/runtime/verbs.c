/* A compiled program written by hand, to test the runtime without a compiler: each frame says what is to be done with it.
 *
 * A frame begins with 16 bytes:
 *   0  what ingress does (bits below), unless the packet went round before
 *   1  what egress does, unless the packet is a copy or went round before
 *   2  argument of ingress: clone session, multicast group, length to truncate to
 *   3  argument of egress
 *   4  egress port (16 bits)
 *   6  ingress passes, 7 egress passes (counted here)
 *  15  priority, when it comes in
 *   8  instance type, 9 egress_rid, 10 packet_length (16 bits), 12 metadata `mark` (16 bits), 14 ingress port (16 bits): as egress
 *      finds them
 * Ingress sets mark to 0xabcd in the first pass; field list 1 preserves mark and ingress_port, list 2 only mark. What comes from the
 * event port goes to the CPU port; what goes to the CPU port leaves unchanged.
 */
#include <string.h>

#include "p4rt.h"

enum { CLONE = 1, AGAIN = 2, MULTICAST = 4, DROP = 8, DIGEST = 16, TRUNCATE = 32, ALWAYS = 64, TABLE = 128 };
enum { SIZE = 16, EVENT_PORT = 507, CPU_PORT = 510 };

struct phv {
    uint8_t valid, h[SIZE];
    struct { uint16_t mark; } meta;
};

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static void put16(uint8_t *p, uint32_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }

static void phv_clear(void *phv) { memset(phv, 0, sizeof(struct phv)); }
static void meta_clear(void *phv) { memset(&((struct phv *)phv)->meta, 0, sizeof(((struct phv *)phv)->meta)); }

static void parse(struct p4_packet *p)
{
    struct phv *v = p->phv;
    if (p->len < SIZE) {
        p->std.parser_error = 1;  /* PacketTooShort; all of it is payload */
        return;
    }
    memcpy(v->h, p->data, SIZE);
    v->valid = 1;
    p->cursor_bits = SIZE * 8;
}

static void nothing(struct p4_packet *p) { (void)p; }

static void ingress(struct p4_packet *p)
{
    struct phv *v = p->phv;
    struct p4_register_state *r = p4_registers(p);
    p4_counter_count(p, 0, p->std.ingress_port);
    if (p->std.ingress_port < r[0].size) r[0].cells[p->std.ingress_port * r[0].words]++;
    if (p->std.parser_error) {
        p->std.egress_spec = 2;  /* a short frame leaves as it came */
        return;
    }
    if (p->std.ingress_port == EVENT_PORT) {
        p->std.egress_spec = CPU_PORT;
        return;
    }
    uint8_t todo = v->h[0];
    v->h[6]++;
    p->std.egress_spec = get16(v->h + 4);
    if (p->std.instance_type == 0) p->std.priority = v->h[15];
    if (todo & TABLE) {
        uint64_t key = v->h[2];
        const struct p4_entry *e = p4_table_lookup(p, 0, &key);
        if (e->action == 1) p->std.egress_spec = (uint16_t)e->data[0];
        else p->std.egress_spec = 511;
        if (e->hit && p4_direct_meter_read(p, 2, e) == 2) p->std.egress_spec = 511;
        return;
    }
    if (p->std.instance_type == 0) v->meta.mark = 0xabcd;
    if (p->std.instance_type != 0 && !(todo & ALWAYS)) return;
    if (todo & CLONE) {
        p->ask.flags |= P4_ASK_CLONE;
        p->ask.clone_session = v->h[2];
        p->ask.clone_list = 1;
    }
    if (todo & AGAIN) {
        p->ask.flags |= P4_ASK_RESUBMIT;
        p->ask.resubmit_list = 2;
    }
    if (todo & MULTICAST) p->std.mcast_grp = v->h[2];
    if (todo & TRUNCATE) p4_truncate(p, v->h[2]);
    if (todo & DIGEST) {
        uint64_t words[3] = {v->h[2], 0x1122334455667788, 0x99};
        p4_digest(p, 0, words);
    }
    if (todo & DROP) {
        p->std.egress_spec = 511;
        p->std.mcast_grp = 0;
    }
}

static void egress(struct p4_packet *p)
{
    struct phv *v = p->phv;
    if (!v->valid || p->std.egress_port == CPU_PORT) return;
    uint8_t todo = v->h[1];
    v->h[7]++;
    v->h[8] = (uint8_t)p->std.instance_type;
    v->h[9] = (uint8_t)p->std.egress_rid;
    put16(v->h + 10, p->std.packet_length);
    put16(v->h + 12, v->meta.mark);
    put16(v->h + 14, p->std.ingress_port);
    bool first = p->std.instance_type == 0 || p->std.instance_type == 5;
    if (!(todo & ALWAYS) && (!first || v->h[6] > 1)) return;
    if (todo & CLONE) {
        p->ask.flags |= P4_ASK_CLONE;
        p->ask.clone_session = v->h[3];
        p->ask.clone_list = 2;
    }
    if (todo & AGAIN) {
        p->ask.flags |= P4_ASK_RECIRCULATE;
        p->ask.recirculate_list = 1;
    }
    if (todo & DROP) p->std.egress_spec = 511;
}

static void deparse(struct p4_packet *p)
{
    const struct phv *v = p->phv;
    if (!v->valid) return;
    memcpy(p->head, v->h, SIZE);
    p->head_len = SIZE;
}

static void copy_fields(uint32_t list, struct p4_packet *to, const struct p4_packet *from)
{
    const struct phv *f = from->phv;
    struct phv *t = to->phv;
    t->meta.mark = f->meta.mark;
    if (list == 1) to->std.ingress_port = from->std.ingress_port;
}

/* ---- what it says of itself ---------------------------------------------------------------------------------------- */
static const struct p4_field_desc port_param[] = {{"port", 1, 9, 0}}, wide_param[] = {{"w", 1, 100, 0}, {"x", 2, 8, 2}};
static const struct p4_action_desc actions[] = {{"drop", 0x01000001, 0, 0, NULL}, {"to_port", 0x01000002, 1, 1, port_param},
                                                {"wide", 0x01000003, 2, 3, wide_param}};
static const uint32_t all_actions[] = {0, 1, 2};
static const struct p4_key_desc exact8[] = {{"arg", 1, 8, 0, P4_EXACT}};
static const struct p4_key_desc exact_wide[] = {{"a", 1, 12, 0, P4_EXACT}, {"b", 2, 130, 1, P4_EXACT}};
static const struct p4_key_desc lpm[] = {{"a", 1, 8, 0, P4_EXACT}, {"b", 2, 100, 1, P4_LPM}};
static const struct p4_key_desc ternary[] = {{"a", 1, 16, 0, P4_TERNARY}, {"b", 2, 70, 1, P4_TERNARY}};
static const struct p4_key_desc mixed[] = {{"a", 1, 8, 0, P4_RANGE}, {"b", 2, 80, 1, P4_RANGE}, {"c", 3, 8, 3, P4_OPTIONAL},
                                           {"d", 4, 8, 4, P4_TERNARY}, {"e", 5, 4, 5, P4_EXACT}, {"f", 6, 8, 6, P4_LPM}};
static const uint64_t const_value[] = {7, 0x30}, const_mask[] = {0xff, 0xf0}, const_any[] = {0, 0}, const_data[] = {3};
static const struct p4_key_desc const_key[] = {{"a", 1, 8, 0, P4_TERNARY}, {"b", 2, 8, 1, P4_TERNARY}};
static const struct p4_const_entry const_entries[] = {{const_value, const_mask, 1, const_data, 5},
                                                      {const_any, const_any, 0, NULL, 4}};
#define TABLE_OF(name, id, keys, words, size, counter, meter) \
    {name, id, sizeof keys / sizeof *keys, words, keys, 3, all_actions, 0, NULL, false, size, 0, NULL, false, counter, meter, -1, true}
static const struct p4_table_desc tables[] = {
    TABLE_OF("exact", 0x02000001, exact8, 1, 200, 1, 2),
    TABLE_OF("exact_wide", 0x02000002, exact_wide, 4, 100000, -1, -1),
    TABLE_OF("lpm", 0x02000003, lpm, 3, 100000, -1, -1),
    TABLE_OF("ternary", 0x02000004, ternary, 3, 100000, -1, -1),
    TABLE_OF("mixed", 0x02000005, mixed, 7, 100000, -1, -1),
    {"constant", 0x02000006, 2, 2, const_key, 3, all_actions, 0, NULL, true, 2, 2, const_entries, true, -1, -1, -1, false},
    {"keyless", 0x02000007, 0, 0, NULL, 3, all_actions, 0, NULL, false, 1, 0, NULL, false, -1, -1, -1, false},
};
static const struct p4_register_desc registers[] = {{"passes", 0x16000001, 32, 512}, {"wide", 0x16000002, 192, 8}};
static const struct p4_counter_desc counters[] = {{"rx", 0x12000001, 512, P4_PACKETS_AND_BYTES, -1},
                                                  {"exact_counter", 0x13000001, 0, P4_PACKETS_AND_BYTES, 0}};
static const struct p4_meter_desc meters[] = {{"packets", 0x14000001, 16, P4_PACKETS, -1}, {"bytes", 0x14000002, 16, P4_BYTES, -1},
                                              {"exact_meter", 0x15000001, 0, P4_PACKETS, 0}};
static const struct p4_field_desc digest_fields[] = {{"arg", 1, 8, 0}, {"wide", 2, 72, 1}};
static const struct p4_digest_desc digests[] = {{"seen", 0x17000001, 2, 3, digest_fields}};
static const struct p4_key_desc set_fields[] = {{"a", 1, 8, 0, P4_TERNARY}};
static const struct p4_value_set_desc value_sets[] = {{"kinds", 0x03000001, 1, 1, 4, set_fields}};
static const char *const errors[] = {"NoError", "PacketTooShort"};

static const struct p4_program program = {
    .abi_version = P4_ABI_VERSION, .source = "verbs.c", .phv_size = sizeof(struct phv),
    .n_errors = 2, .errors = errors, .n_actions = 3, .actions = actions, .n_tables = 7, .tables = tables,
    .n_registers = 2, .registers = registers, .n_counters = 2, .counters = counters, .n_meters = 3, .meters = meters,
    .n_digests = 1, .digests = digests, .n_value_sets = 1, .value_sets = value_sets,
    .phv_clear = phv_clear, .meta_clear = meta_clear, .parse = parse, .verify = nothing, .ingress = ingress, .egress = egress,
    .compute = nothing, .deparse = deparse, .copy_fields = copy_fields};
const struct p4_program *p4_program_get(void) { return &program; }
