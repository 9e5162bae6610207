/* The plain forwarder that the switch is measured against: frames from one interface to the other and back, unchanged, through two
 * AF_PACKET sockets, recvmmsg() and sendmmsg() in batches of 64, PACKET_QDISC_BYPASS. Runs until it is killed.
 *
 *     forwarder IFACE IFACE
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 64
#define MAX_FRAME 9216
#define SOCKET_BUFFER (32 << 20)

static uint8_t frames[BATCH][MAX_FRAME];
static struct iovec iov[BATCH];
static struct mmsghdr in[BATCH], out[BATCH];

static int open_socket(const char *iface)
{
    int on = 1, buffer = SOCKET_BUFFER;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(iface)};
    struct packet_mreq promiscuous = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (!address.sll_ifindex || fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer) ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) ||
        bind(fd, (struct sockaddr *)&address, sizeof address)) {
        fprintf(stderr, "forwarder: %s: %s\n", iface, strerror(errno));
        exit(1);
    }
    return fd;
}

static int forward(int from, int to)
{
    int n = recvmmsg(from, in, BATCH, MSG_DONTWAIT, NULL);
    if (n <= 0) return 0;
    for (int i = 0; i < n; i++) {
        iov[i].iov_len = in[i].msg_len;
        out[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
    for (int done = 0; done < n;) {
        int sent = sendmmsg(to, out + done, (unsigned)(n - done), 0);
        done += sent > 0 ? sent : 1;
    }
    for (int i = 0; i < n; i++) iov[i].iov_len = MAX_FRAME;
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: forwarder IFACE IFACE\n");
        return 2;
    }
    int a = open_socket(argv[1]), b = open_socket(argv[2]);
    for (int i = 0; i < BATCH; i++) {
        iov[i] = (struct iovec){frames[i], MAX_FRAME};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
        if (forward(a, b) + forward(b, a) == 0) poll(fds, 2, -1);
    }
}
