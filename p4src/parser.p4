#ifndef PARSER_P4
#define PARSER_P4

#include "headers.p4"

/* Reads every header that the switch decides on. Nothing is refused here: what is missing or unknown stays invalid,
 * and the ingress drops it under a named reason (a parser that rejected would drop without a count, and BMv2's never
 * drops). */
parser FrameParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: packet_out_header;
            EVENT_PORT: sensed;
            INSIDE: returned;
            default: received;
        }
    }

    // From the controller: it has crossed no link.
    state packet_out_header {
        packet.extract(hdr.packet_out);
        packet.extract(hdr.link);
        transition body;
    }

    state sensed {
        packet.extract(hdr.link);
        transition notice;
    }

    // Recirculated: a frame that was held, or what the switch tells itself.
    state returned {
        packet.extract(hdr.link);
        transition select(hdr.link.kind) {
            KIND_DATA: oefh;
            default: notice;
        }
    }

    state received {
        packet.extract(hdr.link);
        meta.crossed_link = 1;
        transition body;
    }

    state body {
        meta.byte_12 = packet.lookahead<bit<8>>();
        transition select(hdr.link.kind) {
            KIND_DATA: oefh;
            KIND_LLR_ACK: llr_control;
            KIND_LLR_NACK: llr_control;
            KIND_LLR_INIT: link_init;
            KIND_LLR_INIT_ECHO: link_init;
            KIND_CF_UPDATE: credit_update;
            KIND_CC_UPDATE: credit_update;
            default: accept;
        }
    }

    state oefh {
        packet.extract(hdr.oefh);
        transition select(hdr.oefh.next) {
            NEXT_LSU: lsu;
            NEXT_TMA: tma;
            NEXT_EVENT: event;
            NEXT_PROBE: probe;
            default: accept;
        }
    }

    state lsu {
        packet.extract(hdr.lsu);
        transition accept;
    }

    state tma {
        packet.extract(hdr.tma);
        transition accept;
    }

    state event {
        packet.extract(hdr.event);
        transition accept;
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }

    state llr_control {
        packet.extract(hdr.llr_control);
        transition accept;
    }

    state link_init {
        packet.extract(hdr.link_init);
        transition accept;
    }

    state credit_update {
        packet.extract(hdr.credit_update);
        transition accept;
    }

    state notice {
        packet.extract(hdr.notice);
        transition accept;
    }
}

/* Writes what is valid, in wire order. The packet-out header is for the switch alone and is never sent. */
control FrameDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.link);
        packet.emit(hdr.oefh);
        packet.emit(hdr.lsu);
        packet.emit(hdr.tma);
        packet.emit(hdr.event);
        packet.emit(hdr.probe);
        packet.emit(hdr.probe_credits);
        packet.emit(hdr.probe_retry);
        packet.emit(hdr.llr_control);
        packet.emit(hdr.link_init);
        packet.emit(hdr.credit_update);
        packet.emit(hdr.notice);
    }
}

#endif
