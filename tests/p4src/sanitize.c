/* Drives ethlink.p4, compiled to C, under AddressSanitizer and UBSan: frames of every make and fault, on every port, with tables
 * filled and every drop reason trapped. Prints "ok" when nothing was found and every frame ended somewhere.
 *
 *     sanitize PROGRAM.so
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

enum { PORTS = 8, ENDPOINTS = 4, REMOTE = 100, TENANT = 1, STATION = 0xf01, FRAMES = 200000, LONGEST = 4200, CRC32 = 0 };

static uint64_t state = 88172645463325252u;
static uint32_t roll(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, sw_error());
    exit(1);
}

static uint32_t index_of(const char *name, uint32_t n, const char *(*nth)(const struct p4_program *, uint32_t), p4_switch *sw)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *full = nth(sw_program(sw), i), *last = strrchr(full, '.');
        if (!strcmp(last ? last + 1 : full, name)) return i;
    }
    die(name);
    return 0;
}
static const char *table_name(const struct p4_program *p, uint32_t i) { return p->tables[i].name; }
static const char *counter_name(const struct p4_program *p, uint32_t i) { return p->counters[i].name; }

/* Insert an entry with exact keys; action is an index among the table's own. */
static void insert(p4_switch *sw, const char *table, uint32_t action, int keys, const uint64_t *key, int params, const uint64_t *data)
{
    uint64_t words[16] = {0};
    for (int i = 0; i < keys; i++) words[i] = key[i], words[keys + i] = ~0ull;
    for (int i = 0; i < params; i++) words[2 * keys + i] = data[i];
    struct sw_table_op op = {.op = 1, .table = index_of(table, sw_program(sw)->n_tables, table_name, sw), .action = action};
    if (sw_table_apply(sw, &op, 1, words, (uint64_t)(2 * keys + params)) != SW_OK) die(table);
}
#define LIST(...) ((const uint64_t[]){__VA_ARGS__})
#define INSERT(table, action, n_keys, keys, n_params, params) insert(sw, table, action, n_keys, keys, n_params, params)

static void fill(p4_switch *sw)
{
    uint64_t members[3] = {0};
    for (uint64_t port = 1; port <= PORTS; port++) {
        INSERT("port_config", 0, 1, LIST(port), 3, LIST(port == PORTS, port <= ENDPOINTS ? 1 : 2, TENANT));
        INSERT("egress_config", 0, 1, LIST(port), 1, LIST(port == PORTS));
        INSERT("source_guard", 0, 2, LIST(port, port), 0, LIST(0));
        INSERT("fabric_tenant", 0, 1, LIST(REMOTE + port), 1, LIST(TENANT));
        INSERT("forward", 0, 2, LIST(TENANT, port), 1, LIST(port));
        INSERT("forward", 1, 2, LIST(TENANT, REMOTE + port), 2, LIST(1, STATION + 1));
        for (uint64_t bit = 0; bit < 9; bit++) { /* slot 0 in the most significant bits of 144 */
            uint64_t at = (16 - port) * 9 + bit;
            members[at / 64] |= (port >> bit & 1) << (at % 64);
        }
    }
    INSERT("path_group", 0, 1, LIST(1), 4, LIST(PORTS + 1, members[0], members[1], members[2])); /* the last slot is empty */
    INSERT("station", 0, 1, LIST(STATION), 0, LIST(0));
    INSERT("destination_tenant", 0, 1, LIST(7), 1, LIST(TENANT + 1));
    for (uint64_t reason = 1; reason < 128; reason += 2) INSERT("trap", 0, 1, LIST(reason), 0, LIST(0));
}

/* Make most of what a frame says right, so that each check is reached. */
static void make(uint8_t *f, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) f[i] = (uint8_t)roll(256);
    if (len >= 30 && roll(8)) {
        uint32_t src = roll(2) * REMOTE + 1 + roll(PORTS), dst = roll(2) * REMOTE + 1 + roll(PORTS);
        if (!roll(8)) dst = roll(2) ? STATION : roll(4096);
        f[0] = (uint8_t)((roll(8) ? 1 : 1 + roll(7)) << 4);
        if (roll(8)) f[6] = f[7] = 0;
        f[12] = (uint8_t)(roll(8) << 3 | roll(8));
        f[13] = (uint8_t)(dst >> 4), f[14] = (uint8_t)(dst << 4 | src >> 8), f[15] = (uint8_t)src;
        f[16] = (uint8_t)((1 + roll(4)) << 4 | roll(16));
        if (f[16] >> 4 == 1 && len > 40 && roll(4)) f[18] = 0x20, f[19] = (uint8_t)(len - 41);
        if (f[16] >> 4 == 2 && len >= 50 && roll(4)) f[18] = 0x10, f[28] = (uint8_t)((len - 50) >> 8), f[29] = (uint8_t)(len - 50);
    }
    if (len >= 12 && roll(16)) {
        static uint8_t covered[LONGEST];
        memcpy(covered, f, 8);
        memcpy(covered + 8, f + 12, len - 12);
        uint32_t crc = sw_checksum(CRC32, covered, len - 4);
        for (int i = 0; i < 4; i++) f[8 + i] = (uint8_t)(crc >> (24 - 8 * i));
    }
}

static uint64_t counted(p4_switch *sw, uint32_t counter)
{
    static uint64_t cells[2 * 512];
    uint64_t sum = 0;
    if (sw_counter_read(sw, counter, 0, 512, cells) != SW_OK) die("counter");
    for (uint32_t i = 0; i < 512; i++) sum += cells[2 * i];
    return sum;
}

int main(int argc, char **argv)
{
    struct sw_options options = {.cpu_port = 510, .drop_port = 511, .event_port = SW_NONE, .packets = 256, .queue_depth = 32,
                                 .recirculate_depth = 64, .priorities = 2, .ring_frames = 64};
    if (argc != 2) return 2;
    p4_switch *sw = sw_new(&options);
    if (!sw || sw_load(sw, argv[1])) die(argv[1]);
    fill(sw);
    static uint8_t sent[1 << 17];
    uint64_t local = 0, forwarded = 0;
    for (int n = 0; n < FRAMES; n++) {
        uint32_t len = 1 + roll(roll(4) ? 130 : LONGEST), port = roll(10) ? 1 + roll(PORTS) : roll(2) ? 510 : roll(500);
        uint8_t *frame = malloc(len); /* exact, so that reading past its end is found */
        make(frame, len);
        if (sw_inject(sw, port, frame, len) != SW_OK) die("inject");
        free(frame);
        int64_t got = sw_inject_output(sw, sent, sizeof sent);
        if (got < 0 || got > (int64_t)sizeof sent) die("output");
        if (got) forwarded++;
    }
    /* Everything is counted: as dropped, or as sent and not trapped. */
    const struct p4_program *program = sw_program(sw);
    uint32_t first = index_of("unknown_port", program->n_counters, counter_name, sw);
    uint64_t dropped = 0, trapped = 0;
    for (uint32_t i = 0; i < program->n_counters; i++) {
        if (!strstr(program->counters[i].name, ".drops.")) continue;
        dropped += counted(sw, i);
        if ((i - first) % 2 == 0) trapped += counted(sw, i); /* reasons 1, 3, 5, ... */
    }
    local = forwarded - trapped;
    uint64_t received = counted(sw, index_of("port_rx", program->n_counters, counter_name, sw));
    if (received != FRAMES || dropped + local != FRAMES || forwarded < FRAMES / 10) {
        fprintf(stderr, "%lu received, %lu dropped (%lu of them trapped), %lu sent\n", (unsigned long)received,
                (unsigned long)dropped, (unsigned long)trapped, (unsigned long)forwarded);
        return 1;
    }
    sw_free(sw);
    puts("ok");
    return 0;
}
