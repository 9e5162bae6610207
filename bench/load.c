/* A load generator: sends one frame over and over, sendmmsg() in batches of 64 with PACKET_QDISC_BYPASS, for some seconds, and says how
 * many frames left. What arrives is counted by the kernel, on the receiving interface.
 *
 *     load IFACE SECONDS [OFFSET COUNT [RATE]] <frame.bin
 *
 * With OFFSET and COUNT, the 32-bit number at OFFSET takes all values below COUNT in turn, neighbours far apart. RATE: frames per
 * second, in small bursts; without it as fast as it goes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BATCH 64
#define MAX_FRAME 9216
#define SOCKET_BUFFER (8 << 20)
#define STRIDE 7919u  /* a prime, so that every number comes up */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static uint8_t frame[BATCH][MAX_FRAME];
    static struct mmsghdr msg[BATCH];
    static struct iovec iov[BATCH];
    if (argc != 3 && argc != 5 && argc != 6) {
        fprintf(stderr, "usage: load IFACE SECONDS [OFFSET COUNT [RATE]] <frame\n");
        return 2;
    }
    size_t length = fread(frame[0], 1, MAX_FRAME, stdin), offset = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    uint32_t count = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0, number = 0;
    double rate = argc > 5 ? atof(argv[5]) : 0;
    unsigned burst = rate > 0 ? 8 : BATCH;
    if (count && offset + sizeof number > length) {
        fprintf(stderr, "load: the frame ends before byte %zu\n", offset + sizeof number);
        return 2;
    }
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = 0, .sll_ifindex = (int)if_nametoindex(argv[1])};
    int on = 1, buffer = SOCKET_BUFFER, fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (!address.sll_ifindex || fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer) ||
        bind(fd, (struct sockaddr *)&address, sizeof address)) {
        fprintf(stderr, "load: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    for (int i = 0; i < BATCH; i++) {
        memcpy(frame[i], frame[0], length);
        iov[i] = (struct iovec){frame[i], length};
        msg[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
    unsigned long sent = 0;
    double start = now(), end = start + atof(argv[2]);
    for (double t; (t = now()) < end;) {
        if (rate > 0 && (double)sent > (t - start) * rate) {
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
            continue;
        }
        for (unsigned i = 0; count && i < burst; i++, number = (number + STRIDE) % count) {
            uint32_t written = htonl(number);
            memcpy(frame[i] + offset, &written, sizeof written);
        }
        int n = sendmmsg(fd, msg, burst, 0);
        if (n > 0) sent += (unsigned long)n;
    }
    printf("%lu\n", sent);
}
