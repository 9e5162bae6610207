#ifndef LINK_FAULT_P4
#define LINK_FAULT_P4

#include "../headers.p4"
#include "../registers.p4"

/* A bad link, made on purpose: frames that leave a port are dropped, corrupted, duplicated or delayed. It stands
 * where the wire begins, below everything that would repair it. Data and control frames have an entry each. Each
 * frame is hit with a probability (in 2^-32; the greatest one means always), until `frames` of them were hit, if that
 * is not 0; another `run` counts them anew. A corrupted frame leaves with a wrong CRC. */
control LinkFault(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) link_fault_drops;
    counter(PORTS, CounterType.packets) link_fault_corruptions;
    counter(PORTS, CounterType.packets) link_fault_duplicates;
    counter(PORTS, CounterType.packets) link_fault_delays;

    bit<1> control_frame = 0;
    fault_t fault = FAULT_NONE;
    bit<32> chance = 0;
    bit<32> most = 0;
    bit<16> count_as = 0;
    bit<32> microseconds = 0;

    action drop_frames(bit<32> probability, bit<32> frames, bit<16> run) {
        fault = FAULT_DROP;
        chance = probability;
        most = frames;
        count_as = run;
    }

    action corrupt_frames(bit<32> probability, bit<32> frames, bit<16> run) {
        fault = FAULT_CORRUPT;
        chance = probability;
        most = frames;
        count_as = run;
    }

    action duplicate_frames(bit<32> probability, bit<32> frames, bit<16> run) {
        fault = FAULT_DUPLICATE;
        chance = probability;
        most = frames;
        count_as = run;
    }

    action delay_frames(bit<32> probability, bit<32> frames, bit<16> run, bit<32> delay) {
        fault = FAULT_DELAY;
        chance = probability;
        most = frames;
        count_as = run;
        microseconds = delay;
    }

    table link_fault {
        key = {
            standard_metadata.egress_port: exact @name("egress_port");
            control_frame: exact @name("control");
        }
        actions = {
            drop_frames;
            corrupt_frames;
            duplicate_frames;
            delay_frames;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        if (meta.impaired == 0 && standard_metadata.egress_spec != DROP_PORT) {
            if (hdr.link.kind != KIND_DATA) {
                control_frame = 1;
            }
            if (link_fault.apply().hit) {
                bit<32> port = (bit<32>)standard_metadata.egress_port;
                bit<32> drawn = 0;
                bool hits = true;
                if (chance != 0xFFFFFFFF) {
                    random(drawn, 32w0, 32w0xFFFFFFFF);
                    hits = drawn < chance;
                }
                if (hits && most != 0) {
                    bit<32> cell = (bit<32>)(standard_metadata.egress_port ++ control_frame);
                    bit<48> counted = 0;
                    link_fault_run.read(counted, cell);
                    bit<32> hit = counted[31:0];
                    if (counted[47:32] != count_as) {
                        hit = 0;
                    }
                    if (hit < most) {
                        link_fault_run.write(cell, count_as ++ (hit + 1));
                    } else {
                        hits = false;
                    }
                }
                if (hits) {
                    if (fault == FAULT_DROP) {
                        link_fault_drops.count(port);
                        mark_to_drop(standard_metadata);
                    } else if (fault == FAULT_CORRUPT) {
                        link_fault_corruptions.count(port);
                        meta.renew_crc = CRC_KEPT;
                        hdr.link.crc = ~hdr.link.crc;
                    } else if (fault == FAULT_DUPLICATE) {
                        link_fault_duplicates.count(port);
                        meta.to_port = 1;
                    } else {
                        link_fault_delays.count(port);
                        meta.due = (bit<32>)standard_metadata.egress_global_timestamp + microseconds;
                        meta.egress_port = standard_metadata.egress_port;
                        meta.to_delay = 1;
                        mark_to_drop(standard_metadata);
                    }
                }
            }
        }
    }
}

#endif
