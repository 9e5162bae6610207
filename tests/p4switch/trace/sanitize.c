/* Drives story.p4, compiled to C in its traced build, under AddressSanitizer and UBSan: frames of every kind and length, each told
 * of in full. Prints "ok" when nothing was found.
 *
 *     sanitize PROGRAM.so
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

enum { FRAMES = 20000, LONGEST = 80, KINDS = 0x15 };

static uint64_t state = 88172645463325252u;
static uint32_t roll(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static void check(int status, const char *what)
{
    if (status >= 0) return;
    fprintf(stderr, "%s: %s\n", what, sw_error());
    exit(1);
}

int main(int n, char **words)
{
    if (n != 2) return 2;
    struct sw_options options = {.device_id = 1, .cpu_port = SW_NONE, .drop_port = 511, .event_port = SW_NONE, .packets = 1024,
                                 .queue_depth = 64, .recirculate_depth = 64, .priorities = 1, .ring_frames = 64, .trace = 1};
    options.trace_fd = open("/dev/null", O_WRONLY);
    p4_switch *sw = sw_new(&options);
    if (!sw) check(-1, "sw_new");
    check(sw_load(sw, words[1]), "sw_load");
    const struct sw_replica replicas[] = {{1, 7}, {2, 7}, {3, 8}};
    check(sw_multicast_set(sw, 1, replicas, 3), "sw_multicast_set");
    check(sw_clone_set(sw, 5, replicas, 2, 6), "sw_clone_set");
    for (uint32_t i = 0; i < FRAMES; i++) {
        uint32_t length = 1 + roll(LONGEST);
        uint8_t *frame = malloc(length);  /* of its exact size, so that a read beyond it is found */
        for (uint32_t at = 0; at < length; at++) frame[at] = (uint8_t)(roll(4) ? roll(16) : roll(256));
        frame[0] = (uint8_t)roll(KINDS);
        int status = sw_inject(sw, 1 + roll(4), frame, length);
        if (status != SW_ENDLESS) check(status, "sw_inject");
        free(frame);
    }
    sw_free(sw);
    puts("ok");
    return 0;
}
