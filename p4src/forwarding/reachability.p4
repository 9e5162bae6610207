#ifndef REACHABILITY_P4
#define REACHABILITY_P4

#include "../headers.p4"
#include "../registers.p4"

/* What a neighbour says of another switch: that it has lost it, again and again while that lasts, or has it back. It is
 * for this switch alone: what is behind the lost one is no longer sent over the neighbour, where there is another path
 * (path_choice.p4). It is soft state: once the neighbour says it no more, the path is used again. That the event comes
 * from a switch, over a fabric port, has been checked. */
control Reachability(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) events_received;

    apply {
        if (meta.verdict == VERDICT_UNDECIDED && hdr.event.isValid()
            && hdr.event.subject >= (bit<16>)FIRST_SWITCH_ID && hdr.event.subject < (bit<16>)NOBODY) {
            bit<32> path = (bit<32>)(hdr.event.subject[7:0] ++ meta.link_port);
            ticks_t now = 0;
            meta.verdict = VERDICT_CONSUMED;
            events_received.count((bit<32>)meta.link_port);
            if (hdr.event.type == EVENT_LINK_DOWN) {
                ticks.read(now, 0);
                lost_behind.write(path, now + 1);
            } else if (hdr.event.type == EVENT_LINK_UP) {
                lost_behind.write(path, 0);
            }
        }
    }
}

#endif
