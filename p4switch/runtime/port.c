/* Ports: a Linux interface through one AF_PACKET socket, with a TPACKET_V2 ring to receive from and sendmmsg() to send with.
 *
 * A received frame stays in the ring while it is worked on, and is normally sent straight from there: tp_reserve leaves room before
 * it for headers that grow. Its slot goes back to the kernel once every port has sent what it collected (port_finish).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "switch.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000
#endif
#define RESERVE 128                        /* room for headers in front of a received frame */
#define BLOCK_BYTES (1u << 18)
#define SOCKET_BUFFER (8 << 20)
#define SEND_RETRIES 64                    /* of a send that finds no buffer, yielding in between; then the frame is dropped */

struct port {
    uint32_t number;
    char iface[IFNAMSIZ];
    int fd, ifindex;                       /* fd -1: the interface has gone */
    bool up;
    uint32_t mtu;                          /* that the ring was made for */
    uint8_t *ring;
    size_t ring_bytes;
    uint32_t frame_bytes, frames_per_block, n_frames;
    uint32_t next, taken;                  /* next slot to read; slots before it that are still ours */
    uint32_t n_out;
    struct iovec iov[BURST];
    struct mmsghdr msg[BURST];
    struct packet *owner[BURST];           /* whose buffer the frame lies in; NULL: a receive ring */
    struct pcap *in, *out;
};

/* ---- opening ------------------------------------------------------------------------------------------------------- */
static int refused(const struct port *p, const char *what)
{
    if (errno == EPERM || errno == EACCES)
        return fail(SW_SYSTEM, "port %u: %s on %s: not permitted; run as root or with CAP_NET_RAW and CAP_NET_ADMIN", p->number, what,
                    p->iface);
    return fail(SW_SYSTEM, "port %u: %s on %s: %s", p->number, what, p->iface, strerror(errno));
}

/* Frames must come as they were on the wire: no checksum left to the receiver, no segments merged or still to be cut. Not every
 * driver has every switch, so refusals do not matter. */
static void disable_offloads(int fd, const char *iface)
{
    static const uint32_t commands[] = {ETHTOOL_SRXCSUM, ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct ethtool_value value = {.cmd = commands[i]};
        struct ifreq request = {.ifr_data = (char *)&value};
        memcpy(request.ifr_name, iface, IFNAMSIZ);
        if (ioctl(fd, SIOCETHTOOL, &request) < 0) continue;
    }
}

static uint32_t usable_mtu(uint32_t mtu)
{
    return mtu < MAX_FRAME - ETH_HLEN ? mtu : MAX_FRAME - ETH_HLEN;  /* loopback has 65536 */
}

static int map_ring(p4_switch *sw, struct port *p)
{
    int version = TPACKET_V2;
    unsigned reserve = RESERVE;
    uint32_t frame = TPACKET2_HDRLEN + 64 + RESERVE + ETH_HLEN + 4 + p->mtu;
    frame = (frame + 63) & ~63u;
    if (!(frame / 64 & 1)) frame += 64;  /* an odd number of cache lines, or all headers fall into the same few cache sets */
    p->frame_bytes = frame;
    p->frames_per_block = BLOCK_BYTES / frame;
    uint32_t blocks = (sw->options.ring_frames + p->frames_per_block - 1) / p->frames_per_block;
    p->n_frames = blocks * p->frames_per_block;
    struct tpacket_req request = {.tp_block_size = BLOCK_BYTES, .tp_block_nr = blocks, .tp_frame_size = frame,
                                  .tp_frame_nr = p->n_frames};
    if (setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
        setsockopt(p->fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof reserve) < 0 ||
        setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
        return refused(p, "cannot make a receive ring");
    p->ring_bytes = (size_t)BLOCK_BYTES * blocks;
    p->ring = mmap(NULL, p->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (p->ring == MAP_FAILED) {
        p->ring = NULL;
        return refused(p, "cannot map the receive ring");
    }
    p->next = p->taken = 0;
    return SW_OK;
}

static void detach(struct port *p)
{
    if (p->ring) munmap(p->ring, p->ring_bytes);
    if (p->fd >= 0) close(p->fd);
    p->ring = NULL;
    p->fd = -1;
    p->up = false;
    p->taken = 0;
}

/* Bind the port to its interface, as it is now. */
static int attach(p4_switch *sw, struct port *p)
{
    int on = 1, buffer = SOCKET_BUFFER;
    p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);  /* protocol 0: nothing comes before bind() */
    if (p->fd < 0) return refused(p, "cannot open a packet socket");
    struct ifreq request = {0};
    memcpy(request.ifr_name, p->iface, IFNAMSIZ);
    if (ioctl(p->fd, SIOCGIFINDEX, &request) < 0)
        return fail(errno == ENODEV ? SW_MISSING : SW_SYSTEM, "port %u: there is no interface %s here (see `ip link`)", p->number, p->iface);
    p->ifindex = request.ifr_ifindex;
    p->mtu = usable_mtu(ioctl(p->fd, SIOCGIFMTU, &request) < 0 ? 1500 : (uint32_t)request.ifr_mtu);
    p->up = ioctl(p->fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
    disable_offloads(p->fd, p->iface);
    int status = map_ring(sw, p);
    if (status) return status;
    struct packet_mreq promiscuous = {.mr_ifindex = p->ifindex, .mr_type = PACKET_MR_PROMISC};
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = p->ifindex};
    /* The next four are wishes: without them the port works, if less well. */
    setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    setsockopt(p->fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    setsockopt(p->fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    if (sw->options.qdisc_bypass) setsockopt(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    if (setsockopt(p->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) < 0)
        return refused(p, "cannot go promiscuous");
    if (bind(p->fd, (struct sockaddr *)&address, sizeof address) < 0) return refused(p, "cannot bind");
    return sw->poll >= 0 ? port_attach(sw, p) : SW_OK;
}

int port_attach(p4_switch *sw, struct port *p)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = p->number};
    if (p->fd >= 0 && epoll_ctl(sw->poll, EPOLL_CTL_ADD, p->fd, &event) < 0) return refused(p, "cannot poll");
    return SW_OK;
}

static void port_free(struct port *p)
{
    detach(p);
    pcap_close(p->in);
    pcap_close(p->out);
    free(p);
}

int sw_port_add(p4_switch *sw, uint32_t number, const char *iface)
{
    if (number >= N_PORTS || number == sw->options.drop_port || number == sw->options.cpu_port || number == sw->options.event_port)
        return fail(SW_INVALID, "port %u: a port with an interface is 0 to %d, and not the drop, CPU or event port", number, N_PORTS - 1);
    if (!*iface || strlen(iface) >= IFNAMSIZ)
        return fail(SW_INVALID, "port %u: '%s' is no interface name (1 to %d characters)", number, iface, IFNAMSIZ - 1);
    struct port *p = calloc(1, sizeof *p);
    if (!p) return fail(SW_SYSTEM, "no memory for port %u", number);
    p->number = number;
    p->fd = -1;
    strcpy(p->iface, iface);
    for (uint32_t i = 0; i < BURST; i++) p->msg[i].msg_hdr = (struct msghdr){.msg_iov = &p->iov[i], .msg_iovlen = 1};
    pthread_mutex_lock(&sw->control);
    int status = SW_OK;
    if (sw->ports[number]) status = fail(SW_EXISTS, "port %u is bound to %s already", number, sw->ports[number]->iface);
    for (uint32_t i = 0; i < sw->n_bound && !status; i++)
        if (!strcmp(sw->bound[i]->iface, iface))
            status = fail(SW_EXISTS, "interface %s is port %u already", iface, sw->bound[i]->number);
    if (!status && sw->pcap_dir && (!(p->in = pcap_create(sw->pcap_dir, number, "in")) ||
                                    !(p->out = pcap_create(sw->pcap_dir, number, "out"))))
        status = SW_SYSTEM;
    if (!status) status = attach(sw, p);
    if (status) {
        port_free(p);
    } else {
        gate_enter(sw);
        sw->ports[number] = sw->bound[sw->n_bound++] = p;
        port_announce(sw, p);
        port_flush_all(sw);
        gate_leave(sw);
        loop_wake(sw);
    }
    pthread_mutex_unlock(&sw->control);
    return status;
}

int sw_port_remove(p4_switch *sw, uint32_t number)
{
    pthread_mutex_lock(&sw->control);
    struct port *p = number < N_PORTS ? sw->ports[number] : NULL;
    if (!p) {
        pthread_mutex_unlock(&sw->control);
        return fail(SW_MISSING, "port %u is not bound to an interface", number);
    }
    gate_enter(sw);
    sw->ports[number] = NULL;
    for (uint32_t i = 0; i < sw->n_bound; i++)
        if (sw->bound[i] == p) sw->bound[i] = sw->bound[--sw->n_bound];
    gate_leave(sw);
    port_free(p);
    pthread_mutex_unlock(&sw->control);
    return SW_OK;
}

/* ---- receiving ----------------------------------------------------------------------------------------------------- */
static inline struct tpacket2_hdr *slot(const struct port *p, uint32_t i)
{
    return (struct tpacket2_hdr *)(p->ring + (size_t)(i / p->frames_per_block) * BLOCK_BYTES +
                                   (size_t)(i % p->frames_per_block) * p->frame_bytes);
}

/* The kernel takes a VLAN tag out of the frame; put it back. */
static void restore_vlan(const struct tpacket2_hdr *h, uint8_t **data, uint32_t *len)
{
    uint16_t tpid = h->tp_status & TP_STATUS_VLAN_TPID_VALID ? h->tp_vlan_tpid : ETH_P_8021Q;
    uint8_t *to = *data - 4;
    memmove(to, *data, 2 * ETH_ALEN);
    to[12] = (uint8_t)(tpid >> 8);
    to[13] = (uint8_t)tpid;
    to[14] = (uint8_t)(h->tp_vlan_tci >> 8);
    to[15] = (uint8_t)h->tp_vlan_tci;
    *data = to;
    *len += 4;
}

uint32_t port_receive(p4_switch *sw, struct port *p, uint32_t most)
{
    uint32_t n = 0;
    if (!p->ring) return 0;
    for (; n < most; n++) {
        struct tpacket2_hdr *h = slot(p, p->next);
        if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) break;
        if (++p->next == p->n_frames) p->next = 0;
        p->taken++;
        struct tpacket2_hdr *following = slot(p, p->next);
        __builtin_prefetch(following);
        __builtin_prefetch((uint8_t *)following + h->tp_mac);
        uint8_t *data = (uint8_t *)h + h->tp_mac;
        uint32_t len = h->tp_len;
        if (h->tp_snaplen < len) {
            drop(sw, p->number, SW_DROP_TOO_LONG, 1);
            continue;
        }
        if (h->tp_status & TP_STATUS_VLAN_VALID) restore_vlan(h, &data, &len);
        if (p->in) pcap_write(p->in, data, len);
        traffic_receive(sw, p->number, data, len, (uint8_t *)h + TPACKET2_HDRLEN);
    }
    return n;
}

void port_finish(struct port *p)
{
    uint32_t i = p->next >= p->taken ? p->next - p->taken : p->next + p->n_frames - p->taken;
    for (; p->taken; p->taken--) {
        __atomic_store_n(&slot(p, i)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        if (++i == p->n_frames) i = 0;
    }
}

/* ---- sending ------------------------------------------------------------------------------------------------------- */
static void flush(p4_switch *sw, struct port *p)
{
    struct port_stats *stats = &sw->stats[p->number];
    uint32_t done = 0, retries = 0;
    while (done < p->n_out) {
        int sent = p->fd < 0 ? -1 : sendmmsg(p->fd, p->msg + done, p->n_out - done, MSG_DONTWAIT);
        if (sent > 0) {
            for (uint32_t end = done + (uint32_t)sent; done < end; done++) {
                stats->tx_packets++;
                stats->tx_bytes += p->iov[done].iov_len;
                if (p->out) pcap_write(p->out, p->iov[done].iov_base, (uint32_t)p->iov[done].iov_len);
            }
        } else if (p->fd >= 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) && retries++ < SEND_RETRIES) {
            sched_yield();
        } else {  /* this frame cannot be sent: too long, too short, interface down */
            drop(sw, p->number, SW_DROP_TX_ERROR, 1);
            done++;
        }
    }
    for (uint32_t i = 0; i < p->n_out; i++)
        if (p->owner[i]) pool_put(&sw->pool, p->owner[i]);
    p->n_out = 0;
}

void port_send(p4_switch *sw, struct port *p, uint8_t *frame, uint32_t len, struct packet *k)
{
    if (p->n_out == BURST) flush(sw, p);
    p->iov[p->n_out] = (struct iovec){frame, len};
    p->owner[p->n_out++] = k->borrowed ? NULL : k;
    if (k->borrowed) pool_put(&sw->pool, k);
}

void port_flush_all(p4_switch *sw)
{
    for (uint32_t i = 0; i < sw->n_bound; i++)
        if (sw->bound[i]->n_out) flush(sw, sw->bound[i]);
}

/* ---- link state ---------------------------------------------------------------------------------------------------- */
void port_clear_error(struct port *p)
{
    int error;
    socklen_t length = sizeof error;
    if (p->fd >= 0) getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &length);
}

void port_announce(p4_switch *sw, const struct port *p)
{
    uint8_t frame[16] = {[12] = 1, [13] = p->up, [14] = (uint8_t)(p->number >> 8), [15] = (uint8_t)p->number};
    if (sw->options.event_port != SW_NONE && sw->program && sw->started) traffic_receive(sw, sw->options.event_port, frame, sizeof frame, NULL);
}

void port_announce_all(p4_switch *sw)
{
    for (uint32_t i = 0; i < sw->n_bound; i++) port_announce(sw, sw->bound[i]);
    port_flush_all(sw);
}

void port_link_changed(p4_switch *sw, int ifindex, const char *iface, uint32_t flags, uint32_t mtu, bool gone)
{
    for (uint32_t i = 0; i < sw->n_bound; i++) {
        struct port *p = sw->bound[i];
        bool was_up = p->up;
        if (p->fd >= 0 && p->ifindex == ifindex && (gone || strcmp(p->iface, iface))) {
            detach(p);  /* deleted, renamed or moved to another namespace */
        } else if (!gone && !strcmp(p->iface, iface)) {
            bool grown = usable_mtu(mtu) > p->mtu;  /* longer frames need another ring */
            if (p->fd >= 0 && (p->ifindex != ifindex || grown)) detach(p);
            if (p->fd < 0 && attach(sw, p)) {
                fprintf(stderr, "p4switch %u: %s\n", sw->options.device_id, sw_error());
                detach(p);
            }
            if (p->fd >= 0) p->up = (flags & IFF_UP) && (flags & IFF_RUNNING);
        } else {
            continue;
        }
        if (p->up != was_up) port_announce(sw, p);
    }
    port_flush_all(sw);
}

/* ---- status -------------------------------------------------------------------------------------------------------- */
int sw_queue_set(p4_switch *sw, uint32_t port, int64_t depth, int64_t rate_pps, int64_t rate_bps)
{
    if (port >= N_PORTS) return fail(SW_INVALID, "port %u: ports are 0 to %d", port, N_PORTS - 1);
    if (depth == 0 || depth > UINT32_MAX) return fail(SW_INVALID, "port %u: a queue holds at least one packet", port);
    pthread_mutex_lock(&sw->control);
    gate_enter(sw);
    for (uint32_t i = 0; i < sw->options.priorities; i++) {
        struct queue *q = &sw->queues[port * sw->options.priorities + i];
        if (depth > 0) q->depth = (uint32_t)depth;
        if (rate_pps >= 0) q->rate_pps = (uint64_t)rate_pps;
        if (rate_bps >= 0) q->rate_bps = (uint64_t)rate_bps;
        q->next_ns = clock_ns();
    }
    gate_leave(sw);
    loop_wake(sw);
    pthread_mutex_unlock(&sw->control);
    return SW_OK;
}

_Static_assert(sizeof((struct sw_port_status){0}.drops) == sizeof((struct port_stats){0}.drops), "one cell per reason");

static bool ever_used(const p4_switch *sw, uint32_t port)
{
    struct port_stats none = {0};
    const struct queue *q = &sw->queues[port * sw->options.priorities];
    return sw->ports[port] || memcmp(&sw->stats[port], &none, sizeof none) || q->count || q->rate_pps || q->rate_bps ||
           q->depth != sw->options.queue_depth;
}

int sw_ports(p4_switch *sw, struct sw_port_status *out, uint32_t capacity)
{
    uint32_t n = 0;
    pthread_mutex_lock(&sw->control);
    gate_enter(sw);
    for (uint32_t port = 0; port < N_PORTS && n < capacity; port++) {
        if (!ever_used(sw, port)) continue;
        struct port *p = sw->ports[port];
        struct port_stats *stats = &sw->stats[port];
        struct tpacket_stats lost = {0};
        socklen_t length = sizeof lost;
        if (p && p->fd >= 0 && !getsockopt(p->fd, SOL_PACKET, PACKET_STATISTICS, &lost, &length))
            drop(sw, p->number, SW_DROP_RING_FULL, lost.tp_drops);  /* reading resets it */
        const struct queue *q = &sw->queues[port * sw->options.priorities];
        struct sw_port_status *s = &out[n++];
        *s = (struct sw_port_status){.port = port, .up = p && p->up, .depth = q->depth, .rate_pps = q->rate_pps,
                                     .rate_bps = q->rate_bps, .rx_packets = stats->rx_packets, .rx_bytes = stats->rx_bytes,
                                     .tx_packets = stats->tx_packets, .tx_bytes = stats->tx_bytes};
        for (uint32_t i = 0; i < sw->options.priorities; i++) s->waiting += q[i].count;
        memcpy(s->drops, stats->drops, sizeof stats->drops);
        if (p) strcpy(s->iface, p->iface);
    }
    gate_leave(sw);
    pthread_mutex_unlock(&sw->control);
    return (int)n;
}

void port_flush_captures(struct port *p)
{
    pcap_flush(p->in);
    pcap_flush(p->out);
}
