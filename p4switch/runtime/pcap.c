/* Captures in the classic pcap format, with nanoseconds, as tcpdump and Wireshark read it. A capture that cannot be written any more
 * (disk full) ends with one message; the switch goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "switch.h"

struct pcap { FILE *file; bool dirty; char path[512]; };

struct pcap *pcap_create(const char *dir, uint32_t port, const char *direction)
{
    static const uint32_t header[6] = {0xa1b23c4d, 4u << 16 | 2, 0, 0, MAX_FRAME, 1};  /* version 2.4, Ethernet */
    struct pcap *p = calloc(1, sizeof *p);
    if (!p) {
        fail(SW_SYSTEM, "no memory for a capture");
        return NULL;
    }
    snprintf(p->path, sizeof p->path, "%s/port%u_%s.pcap", dir, port, direction);
    p->file = fopen(p->path, "wb");
    if (!p->file || fwrite(header, sizeof header, 1, p->file) != 1 || fflush(p->file)) {
        fail(SW_SYSTEM, "cannot write %s: %s", p->path, strerror(errno));
        pcap_close(p);
        return NULL;
    }
    return p;
}

static void give_up(struct pcap *p)
{
    fprintf(stderr, "p4switch: the capture %s ends here: %s\n", p->path, strerror(errno));
    fclose(p->file);
    p->file = NULL;
}

void pcap_write(struct pcap *p, const uint8_t *frame, uint32_t len)
{
    struct timespec t;
    if (!p || !p->file) return;
    clock_gettime(CLOCK_REALTIME, &t);
    uint32_t header[4] = {(uint32_t)t.tv_sec, (uint32_t)t.tv_nsec, len, len};
    if (fwrite(header, sizeof header, 1, p->file) != 1 || fwrite(frame, len, 1, p->file) != 1) give_up(p);
    p->dirty = true;
}

void pcap_flush(struct pcap *p)
{
    if (p && p->file && p->dirty && fflush(p->file)) give_up(p);
    if (p) p->dirty = false;
}

void pcap_close(struct pcap *p)
{
    if (p && p->file) fclose(p->file);
    free(p);
}
