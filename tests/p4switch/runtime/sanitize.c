/* Drives the runtime under AddressSanitizer and UBSan: random frames, random table updates, copies, loading again and again.
 * Prints "ok" and leaves with status 0 when nothing was found.
 *
 *     sanitize PROGRAM.so
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

enum { KEY_WORDS_MIXED = 7, MIXED = 4, FRAMES = 20000, UPDATES = 20000 };

static uint64_t state = 88172645463325252u;
static uint32_t roll(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static void inject(p4_switch *sw)
{
    uint8_t frame[600];
    uint32_t len = 1 + roll(roll(2) ? 24 : sizeof frame);
    for (uint32_t i = 0; i < len; i++) frame[i] = (uint8_t)roll(256);
    if (len > 1) {
        frame[0] &= 0xbf;  /* not for ever */
        frame[1] &= 0xbf;
    }
    if (len > 3) {
        frame[2] %= 5;
        frame[3] %= 5;
        frame[4] = 0;
    }
    if (len > 15) frame[15] &= 1;
    uint8_t *exact = malloc(len);  /* so that reading past its end is found */
    memcpy(exact, frame, len);
    if (sw_inject(sw, roll(512), exact, len) != SW_OK) {
        fprintf(stderr, "%s\n", sw_error());
        exit(1);
    }
    free(exact);
    static uint8_t records[1 << 17];
    int64_t n = sw_inject_output(sw, records, sizeof records);
    if (n < 0 || n > (int64_t)sizeof records) exit(1);
    while (sw_digest_wait(sw, records, sizeof records, 0) > 0) {}
}

static void update(p4_switch *sw)
{
    uint64_t words[2 * KEY_WORDS_MIXED + 3];
    uint64_t *value = words, *mask = words + KEY_WORDS_MIXED;
    memset(words, 0, sizeof words);
    value[0] = roll(4), mask[0] = value[0] + roll(3);        /* range 8 */
    value[1] = roll(3), mask[1] = value[1] + roll(2);        /* range 80 */
    mask[2] = roll(2);
    mask[3] = roll(2) ? 0xff : 0, value[3] = roll(3);        /* optional 8 */
    mask[4] = roll(4), value[4] = roll(4);                   /* ternary 8 */
    value[5] = roll(16);                                     /* exact 4 */
    mask[6] = roll(2) ? 0xf0 : 0xff, value[6] = roll(256);   /* lpm 8 */
    struct sw_table_op op = {.op = 1 + roll(3), .table = MIXED, .action = roll(3), .priority = (int32_t)roll(8), .word = 0};
    sw_table_apply(sw, &op, 1, words, sizeof words / sizeof *words);
    uint64_t key[KEY_WORDS_MIXED] = {roll(5), roll(3), 0, roll(3), roll(4), roll(16), roll(256)}, record[64];
    if (sw_table_find(sw, MIXED, key, record, 64) < 0) exit(1);
}

int main(int argc, char **argv)
{
    struct sw_options options = {.cpu_port = 510, .drop_port = 511, .event_port = SW_NONE, .packets = 256, .queue_depth = 32,
                                 .recirculate_depth = 64, .priorities = 2, .ring_frames = 64};
    if (argc != 2) return 2;
    p4_switch *sw = sw_new(&options);
    for (int i = 0; i < 3; i++) {
        if (!sw || sw_load(sw, argv[1])) {
            fprintf(stderr, "%s\n", sw_error());
            return 1;
        }
        struct sw_replica replicas[] = {{2, 0}, {3, 1}, {600, 2}};
        for (uint32_t k = 1; k < 5; k++) {
            sw_multicast_set(sw, k, replicas, k % 3);
            sw_clone_set(sw, k, replicas, k % 3, k * 7);
        }
        if (sw_multicast_set(sw, 1, replicas, 3) != SW_INVALID) return 1;
        for (int n = 0; n < FRAMES / 3; n++) inject(sw);
        for (int n = 0; n < UPDATES / 3; n++) update(sw);
        static uint64_t dump[1 << 20];
        if (sw_table_dump(sw, MIXED, dump, sizeof dump / sizeof *dump) < 10) return 1;
        p4_switch *next = sw_new(&options);
        if (!next || sw_load(next, argv[1])) return 1;
        for (int n = 0; n < UPDATES / 3; n++) update(next);
        if (sw_adopt(sw, next, i % 2 == 0)) return 1;
        sw_free(next);
        for (int n = 0; n < FRAMES / 3; n++) inject(sw);
        for (uint32_t port = 0; port < 600; port += 37) sw_queue_set(sw, port, 1 + roll(64), -1, -1);
    }
    struct sw_port_status status[512];
    if (sw_ports(sw, status, 512) < 2) return 1;
    sw_free(sw);
    puts("ok");
    return 0;
}
