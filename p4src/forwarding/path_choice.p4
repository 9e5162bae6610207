#ifndef PATH_CHOICE_P4
#define PATH_CHOICE_P4

#include "../headers.p4"
#include "../registers.p4"

const bit<64> HASH_VALUES = 0x100000000; // modulo this a CRC-32 stays as it is

// The port of a slot, slot 0 in the most significant bits; `lane` is how far it is from the right.
#define MEMBER(lane) members[lane + 8:lane]
/* Notes in `alive` whether the path of a slot can be used; an empty slot is none. Unrolled, as P4 has no loops. */
#define LOOK_AT(slot_mask, lane) \
    if (MEMBER(lane) != 0) { \
        is_usable.apply(MEMBER(lane), behind, usable); \
        if (usable) { \
            alive = alive | slot_mask; \
            left = left + 1; \
        } \
    }
/* Takes the path of a slot, if it is the one that is `left` usable ones away. */
#define TAKE(slot_mask, lane) \
    if (alive & slot_mask != 0) { \
        if (left == 0) { \
            meta.egress_port = MEMBER(lane); \
            meta.to_dead_port = 0; \
        } \
        left = left - 1; \
    }

/* Whether a path leads on: its port lives, and the switch there has not said, in the last keepalives, that it has lost
 * the one behind which the destination is. */
control IsUsable(in port_t port, in endpoint_t behind, out bool usable) {
    bit<1> dead = 0;
    ticks_t heard = 0;
    ticks_t now = 0;

    apply {
        usable = true;
        port_dead.read(dead, (bit<32>)port);
        if (dead == 1) {
            usable = false;
        } else if (behind != NOBODY) {
            lost_behind.read(heard, (bit<32>)(behind[7:0] ++ port));
            if (heard != 0) {
                ticks.read(now, 0);
                usable = now + 1 - heard > LOST_BEHIND_TICKS;
            }
        }
    }
}

/* Which of several equal paths a frame takes. With F = 1 it is one by source, destination and entropy, with F = 0 one
 * by source and destination alone, so that the frame stays in order whatever its entropy says. The slot is the CRC-32
 * of these as a fraction of the group's size. Its low bits would do badly: of 64 neighbouring ids they reach half the
 * slots of a group of 8, as a CRC is linear and only a few of its input bits differ.
 *
 * Where that path is dead, what is left of the fraction picks one of those that live, so that its frames spread over
 * all of them evenly, and every other frame keeps its path. With no path left the frame is for a dead port. */
control PathChoice(in headers_t hdr, inout metadata_t meta, in group_t group, in endpoint_t behind) {
    IsUsable() is_usable;
    members_t members = 0;
    bit<8> slots = 0;
    bit<8> entropy = 0;
    bit<32> flow = 0;
    bit<16> alive = 0;
    bit<8> left = 0;
    bool usable = true;

    action set_members(bit<8> size, members_t ports) {
        slots = size;
        members = ports;
    }

    // The ports of a group.
    table path_group {
        key = {
            group: exact @name("group");
        }
        actions = {
            set_members;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        path_group.apply();
        if (hdr.oefh.f == 1) {
            entropy = hdr.oefh.entropy;
        }
        hash(flow, HashAlgorithm.crc32, 32w0, { hdr.oefh.dst, hdr.oefh.src, entropy }, HASH_VALUES);
        bit<48> scaled = (bit<48>)flow * (bit<48>)slots;
        if (slots != 0 && slots <= GROUP_MOST) {
            meta.egress_port = (port_t)(members >> ((GROUP_MOST - 1 - scaled[39:32]) * 9));
        }
        if (meta.egress_port == 0) {
            meta.verdict = REASON_NO_MEMBER;
        } else {
            is_usable.apply(meta.egress_port, behind, usable);
            if (!usable) {
                meta.to_dead_port = 1;
                LOOK_AT(0x0001, 135)
                LOOK_AT(0x0002, 126)
                LOOK_AT(0x0004, 117)
                LOOK_AT(0x0008, 108)
                LOOK_AT(0x0010, 99)
                LOOK_AT(0x0020, 90)
                LOOK_AT(0x0040, 81)
                LOOK_AT(0x0080, 72)
                LOOK_AT(0x0100, 63)
                LOOK_AT(0x0200, 54)
                LOOK_AT(0x0400, 45)
                LOOK_AT(0x0800, 36)
                LOOK_AT(0x1000, 27)
                LOOK_AT(0x2000, 18)
                LOOK_AT(0x4000, 9)
                LOOK_AT(0x8000, 0)
                scaled = (bit<48>)scaled[31:0] * (bit<48>)left;
                left = scaled[39:32];
                TAKE(0x0001, 135)
                TAKE(0x0002, 126)
                TAKE(0x0004, 117)
                TAKE(0x0008, 108)
                TAKE(0x0010, 99)
                TAKE(0x0020, 90)
                TAKE(0x0040, 81)
                TAKE(0x0080, 72)
                TAKE(0x0100, 63)
                TAKE(0x0200, 54)
                TAKE(0x0400, 45)
                TAKE(0x0800, 36)
                TAKE(0x1000, 27)
                TAKE(0x2000, 18)
                TAKE(0x4000, 9)
                TAKE(0x8000, 0)
            }
        }
    }
}

#endif
