/* A load generator: sends one frame over and over as fast as it can, sendmmsg() in batches of 64 with PACKET_QDISC_BYPASS, for some
 * seconds, and says how many frames left. What arrives is counted by the kernel, on the receiving interface.
 *
 *     load IFACE SECONDS <frame.bin
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

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static uint8_t frame[MAX_FRAME];
    static struct mmsghdr msg[BATCH];
    if (argc != 3) {
        fprintf(stderr, "usage: load IFACE SECONDS <frame\n");
        return 2;
    }
    struct iovec iov = {frame, fread(frame, 1, sizeof frame, stdin)};
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = 0, .sll_ifindex = (int)if_nametoindex(argv[1])};
    int on = 1, buffer = SOCKET_BUFFER, fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (!address.sll_ifindex || fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer) ||
        bind(fd, (struct sockaddr *)&address, sizeof address)) {
        fprintf(stderr, "load: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    for (int i = 0; i < BATCH; i++) msg[i].msg_hdr = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1};
    unsigned long sent = 0;
    double end = now() + atof(argv[2]);
    while (now() < end) {
        int n = sendmmsg(fd, msg, BATCH, 0);
        if (n > 0) sent += (unsigned long)n;
    }
    printf("%lu\n", sent);
}
