/* The data-plane thread: one event loop for all ports, ticks, packet-outs and link changes.
 *
 * It looks at every ring as long as there is something to do and sleeps in epoll otherwise, until a frame, a wake-up, or the moment
 * when a paced queue or a tick is due (to a few microseconds: the thread's timer slack is set to the minimum).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "switch.h"

#define SMALL_BATCH 8                      /* under steady traffic, after fewer frames than this, let some more come in ... */
#define PAUSE_NS 5000                      /* ... for so long: fewer system calls, more frames per second */
#define STEADY 16                          /* rounds with work, one after the other, that make traffic steady */
#define LINKS_NS 200000                    /* how often link changes are looked for while there is no time to sleep */
#define NETLINK_BUFFER (1 << 20)
#define NICENESS (-5)                      /* added to that of the thread that runs the packets: ahead of what serves the control plane */
enum { EVENT_WAKE = N_PORTS, EVENT_NETLINK };

void loop_wake(p4_switch *sw)
{
    uint64_t one = 1;
    if (sw->wake >= 0 && write(sw->wake, &one, sizeof one) < 0) { /* only when the counter is full: awake already */ }
}

/* Around all that the data plane does: nothing that it may look at is changed or freed meanwhile. */
static void begin_batch(p4_switch *sw)
{
    pthread_mutex_lock(&sw->gate);
    atomic_fetch_add(&sw->epoch, 1);  /* odd */
}

static void end_batch(p4_switch *sw)
{
    atomic_fetch_add(&sw->epoch, 1);
    pthread_mutex_unlock(&sw->gate);
}

/* ---- link changes -------------------------------------------------------------------------------------------------- */
static void read_link(p4_switch *sw, const struct nlmsghdr *h)
{
    const struct ifinfomsg *info = NLMSG_DATA(h);
    const char *name = "";
    uint32_t mtu = 0;
    int left = (int)IFLA_PAYLOAD(h);
    for (const struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == IFLA_IFNAME) name = RTA_DATA(a);
        if (a->rta_type == IFLA_MTU) memcpy(&mtu, RTA_DATA(a), sizeof mtu);
    }
    port_link_changed(sw, info->ifi_index, name, info->ifi_flags, mtu, h->nlmsg_type == RTM_DELLINK);
}

static void request_links(p4_switch *sw)
{
    struct { struct nlmsghdr h; struct ifinfomsg info; } request = {
        .h = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
    if (send(sw->netlink, &request, sizeof request, 0) < 0)
        fprintf(stderr, "p4switch %u: cannot ask for the links' states: %s\n", sw->options.device_id, strerror(errno));
}

static void read_links(p4_switch *sw)
{
    static _Thread_local _Alignas(struct nlmsghdr) uint8_t buffer[32768];
    for (;;) {
        ssize_t n = recv(sw->netlink, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0 && errno == ENOBUFS) {  /* too many changes at once: ask for all states */
            request_links(sw);
            continue;
        }
        if (n <= 0) return;
        size_t left = (size_t)n;
        for (struct nlmsghdr *h = (struct nlmsghdr *)buffer; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left))
            if (h->nlmsg_type == RTM_NEWLINK || h->nlmsg_type == RTM_DELLINK) read_link(sw, h);
    }
}

/* ---- what comes in besides frames ---------------------------------------------------------------------------------- */
static uint32_t take_packet_outs(p4_switch *sw)
{
    static _Thread_local uint8_t record[8 + MAX_FRAME];
    uint32_t n = 0;
    for (; n < BURST && ring_take(&sw->packet_out, record, sizeof record, 1); n++) {
        uint32_t header[2];
        memcpy(header, record, sizeof header);
        traffic_receive(sw, header[1], record + sizeof header, header[0], NULL);
    }
    return n;
}

static void tick(p4_switch *sw)
{
    static const uint8_t frame[16] = {[12] = 2};
    if (sw->options.event_port == SW_NONE || !sw->options.tick_us || sw->now_ns < sw->next_tick_ns) return;
    uint64_t period = (uint64_t)sw->options.tick_us * 1000;
    sw->next_tick_ns += period;
    if (sw->next_tick_ns <= sw->now_ns) sw->next_tick_ns = sw->now_ns + period;  /* missed ones are not made up for */
    if (sw->program) traffic_receive(sw, sw->options.event_port, (uint8_t *)(uintptr_t)frame, sizeof frame, NULL);
}

/* ---- the loop ------------------------------------------------------------------------------------------------------ */
struct work { uint32_t received, inside; };  /* frames from ports; packets that waited in the switch */

static struct work round_of_work(p4_switch *sw)
{
    struct work n = {.inside = sw->n_recirculated};
    sw->now_ns = clock_ns();
    tick(sw);
    traffic_recirculated(sw);
    n.inside += take_packet_outs(sw);
    for (uint32_t i = 0; i < sw->n_bound; i++) n.received += port_receive(sw, sw->bound[i], BURST);
    if (sw->n_active) n.inside += traffic_serve(sw, false);
    port_flush_all(sw);
    for (uint32_t i = 0; i < sw->n_bound; i++) port_finish(sw->bound[i]);
    return n;
}

/* When to look again at the latest. */
static uint64_t next_due(p4_switch *sw)
{
    uint64_t due = traffic_next_due(sw);
    if (sw->options.event_port != SW_NONE && sw->options.tick_us && sw->next_tick_ns < due) due = sw->next_tick_ns;
    return due;
}

static void pause_briefly(void)
{
    struct timespec t = {.tv_nsec = PAUSE_NS};
    nanosleep(&t, NULL);
}

static void wait_for_work(p4_switch *sw, uint64_t due)
{
    struct epoll_event events[64];
    struct timespec timeout, *limit = NULL;
    if (due != UINT64_MAX) {
        uint64_t now = clock_ns(), left = due > now ? due - now : 0;
        timeout = (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        limit = &timeout;
    }
    int n = epoll_pwait2(sw->poll, events, 64, limit, NULL);
    for (int i = 0; i < n; i++) {
        uint32_t source = events[i].data.u32;
        uint64_t count;
        if (source == EVENT_WAKE) {
            if (read(sw->wake, &count, sizeof count) < 0) { /* another wait has read it */ }
        } else if (source == EVENT_NETLINK || events[i].events & EPOLLERR) {
            begin_batch(sw);
            sw->now_ns = clock_ns();
            if (source == EVENT_NETLINK) read_links(sw);
            else if (source < N_PORTS && sw->ports[source]) port_clear_error(sw->ports[source]);
            end_batch(sw);
        }
    }
}

static void *run(void *argument)
{
    p4_switch *sw = argument;
    prctl(PR_SET_NAME, "p4switch");
    prctl(PR_SET_TIMERSLACK, 1);
    /* A large Write keeps the server's thread busy for a quarter of a second; without this, and with no core to spare, packets would
     * now and then wait for so long that a receive ring overflows. A wish: it takes CAP_SYS_NICE. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICENESS);
    begin_batch(sw);
    port_announce_all(sw);
    end_batch(sw);
    while (!atomic_load(&sw->stop)) {
        uint64_t due = 0;
        uint32_t rounds = 0;
        uint64_t links_ns = 0;  /* epoll tells of link changes too, but only before a sleep */
        begin_batch(sw);
        for (;;) {
            struct work n = round_of_work(sw);
            if (sw->now_ns > links_ns + LINKS_NS) {
                if (links_ns) read_links(sw);
                links_ns = sw->now_ns;
            }
            bool idle = !n.received && !n.inside;
            if (atomic_load_explicit(&sw->gate_waiters, memory_order_relaxed) || atomic_load(&sw->stop)) break;
            if (idle) due = next_due(sw);
            if (idle && !sw->options.busy_poll && due > sw->now_ns) break;
            atomic_fetch_add(&sw->epoch, 2);
            bool small = n.received && n.received < SMALL_BATCH && !n.inside;
            if (small && ++rounds > STEADY && !sw->options.busy_poll) pause_briefly();
        }
        for (uint32_t i = 0; i < sw->n_bound; i++) port_flush_captures(sw->bound[i]);
        end_batch(sw);
        while (atomic_load(&sw->gate_waiters)) sched_yield();
        if (due && !sw->options.busy_poll && !atomic_load(&sw->stop)) wait_for_work(sw, due);
    }
    return NULL;
}

/* ---- starting and stopping ----------------------------------------------------------------------------------------- */
static void close_loop(p4_switch *sw)
{
    if (sw->poll >= 0) close(sw->poll);
    if (sw->wake >= 0) close(sw->wake);
    if (sw->netlink >= 0) close(sw->netlink);
    sw->poll = sw->wake = sw->netlink = -1;
}

static int open_loop(p4_switch *sw)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    struct epoll_event wake = {.events = EPOLLIN, .data.u32 = EVENT_WAKE}, links = {.events = EPOLLIN, .data.u32 = EVENT_NETLINK};
    int buffer = NETLINK_BUFFER;
    sw->poll = epoll_create1(EPOLL_CLOEXEC);
    sw->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    sw->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (sw->poll < 0 || sw->wake < 0 || sw->netlink < 0 || bind(sw->netlink, (struct sockaddr *)&address, sizeof address) < 0 ||
        epoll_ctl(sw->poll, EPOLL_CTL_ADD, sw->wake, &wake) < 0 || epoll_ctl(sw->poll, EPOLL_CTL_ADD, sw->netlink, &links) < 0)
        return fail(SW_SYSTEM, "cannot start the event loop: %s", strerror(errno));
    setsockopt(sw->netlink, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    int status = SW_OK;
    for (uint32_t i = 0; i < sw->n_bound && !status; i++) status = port_attach(sw, sw->bound[i]);
    return status;
}

int sw_start(p4_switch *sw)
{
    pthread_mutex_lock(&sw->control);
    int status = sw->started ? fail(SW_STATE, "the switch runs already") : open_loop(sw);
    if (!status) {
        request_links(sw);  /* what changed since the ports were added */
        atomic_store(&sw->stop, false);
        sw->now_ns = sw->next_tick_ns = clock_ns();
        sw->started = true;
        int error = pthread_create(&sw->thread, NULL, run, sw);
        sw->started = !error;
        if (error) status = fail(SW_SYSTEM, "cannot start the data-plane thread: %s", strerror(error));
    }
    if (status && !sw->started) close_loop(sw);
    pthread_mutex_unlock(&sw->control);
    return status;
}

int sw_stop(p4_switch *sw)
{
    pthread_mutex_lock(&sw->control);
    if (sw->started) {
        atomic_store(&sw->stop, true);
        loop_wake(sw);
        pthread_join(sw->thread, NULL);
        sw->started = false;
        close_loop(sw);
        ring_wake(&sw->packet_in);  /* who takes from them may want to end, too */
        ring_wake(&sw->digests);
    }
    pthread_mutex_unlock(&sw->control);
    return SW_OK;
}
