#ifndef BRING_UP_P4
#define BRING_UP_P4

#include "../headers.p4"
#include "../registers.p4"

/* Brings managed links up and notices when they are gone. Each side draws a random epoch and sends LLR_INIT until the
 * peer echoes it; both epochs together make the session that every later frame carries, so that nothing of an earlier
 * session is taken for the present one. A new epoch of either side resets both directions: what is still in the buffer
 * is announced as credits in use, and both sides count on from there.
 *
 * At every keepalive (senses.p4) the link sends what its state asks for: LLR_INIT, or CF_UPDATE as a sign of life. A
 * profile of another generation asks for a new epoch: what was negotiated is negotiated again, without a time-out, and
 * the link does not count as dead meanwhile. */
control BringUp(in headers_t hdr, inout metadata_t meta) {
    counter(PORTS, CounterType.packets) llr_rx_init_ctl_os;
    counter(PORTS, CounterType.packets) llr_rx_init_echo_ctl_os;
    counter(PORTS, CounterType.packets) link_ups;
    counter(PORTS, CounterType.packets) link_resets;
    counter(PORTS, CounterType.packets) silences;

    bit<32> port = 0;
    ticks_t now = 0;
    epoch_t own = 0;
    epoch_t peer = 0;
    session_t current = 0;
    bool reset = false;
    bool up = false;

    // What comes of two epochs.
    action join_epochs() {
        current = own[31:16] ^ own[15:0] ^ peer[31:16] ^ peer[15:0];
    }

    apply {
        bool keepalive = hdr.notice.isValid() && hdr.notice.type == KEEPALIVE_NOTICE;
        port = (bit<32>)meta.link_port;
        if (meta.has_profile == 1 && (keepalive || hdr.link_init.isValid() || meta.redraw == 1)) {
            ticks.read(now, 0);
            own_epoch.read(own, port);
            peer_epoch.read(peer, port);
            session.read(current, port);
            if (keepalive) {
                // ---------------------------------------------------------------------------------------- a keepalive
                bit<1> down = 0;
                bit<8> generation = 0;
                ticks_t heard = 0;
                carrier_down.read(down, port);
                last_heard.read(heard, port);
                link_generation.read(generation, port);
                bool silent = meta.profile.silence != 0 && now - heard > (bit<32>)meta.profile.silence;
                if (down == 0) {
                    meta.verdict = VERDICT_ANSWER;
                    if (own != 0 && generation != meta.profile.generation) {
                        meta.redraw = 1;
                    }
                    if (own == 0) {
                        meta.redraw = 1;
                        meta.link_lost = 1; // it has had no peer yet
                    } else if (current == 0) {
                        meta.make = MAKE_LLR_INIT;
                        if (silent) {
                            meta.link_lost = 1;
                        }
                    } else if (silent) {
                        silences.count(port);
                        meta.redraw = 1;
                        meta.link_lost = 1;
                    } else if (meta.redraw == 0) { // stalls.p4 and retry_watch.p4 may want it anew
                        meta.make = MAKE_CF_UPDATE;
                    }
                }
            } else if (meta.verdict == VERDICT_UNDECIDED && hdr.link_init.isValid()) {
                // ---------------------------------------------------------------------------- LLR_INIT, LLR_INIT_ECHO
                meta.verdict = VERDICT_CONSUMED;
                if (hdr.link.kind == KIND_LLR_INIT) {
                    llr_rx_init_ctl_os.count(port);
                } else {
                    llr_rx_init_echo_ctl_os.count(port);
                }
                if (hdr.link_init.version != LINK_INIT_VERSION || hdr.link_init.own_epoch == 0
                    || hdr.link_init.credit_size > 15 || hdr.link_init.credit_limit & ABOVE_LIMITS != 0
                    || hdr.link_init.credits_in_use & LANE_SPARES != 0) {
                    meta.verdict = REASON_BAD_INIT;
                } else {
                    last_heard.write(port, now);
                    if (hdr.link.kind == KIND_LLR_INIT) {
                        meta.verdict = VERDICT_ANSWER;
                        meta.make = MAKE_LLR_INIT_ECHO;
                    }
                    if (hdr.link_init.own_epoch != peer) {
                        peer = hdr.link_init.own_epoch;
                        reset = true;
                    }
                    if (own == 0) {
                        meta.redraw = 1;
                    } else if (hdr.link_init.peer_epoch == own) {
                        up = current == 0 || reset;
                    } else if (current != 0 && !reset && hdr.link_init.peer_epoch != 0) {
                        meta.redraw = 1; // the peer knows an epoch of ours that we do not
                    }
                }
            } else if (meta.redraw == 1) {
                meta.verdict = VERDICT_ANSWER; // the third wrong CF_UPDATE in a row
            }

            if (meta.redraw == 1) {
                // ------------------------------------------------------------------------------------ a new own epoch
                session_t last = 0;
                link_resets.count(port);
                link_generation.write(port, meta.profile.generation);
                last_session.read(last, port);
                random(own, EPOCH_MIN, 32w0xFFFFFFFF);
                join_epochs();
                if (current == last) {
                    own = own ^ 2; // another session than before, also where 0 becomes 1
                }
                reset = true;
                if (meta.verdict != VERDICT_ANSWER || meta.make == MAKE_NOTHING) {
                    meta.verdict = VERDICT_ANSWER;
                    meta.make = MAKE_LLR_INIT;
                }
            }
            if (reset) {
                // -------------------------------------------------------------- a new pair of epochs, and its session
                lanes_t consumed = 0;
                lanes_t freed = 0;
                receiver_credits_consumed.read(consumed, port);
                receiver_credits_freed.read(freed, port);
                consumed = lanes_minus(consumed, freed);
                receiver_credits_in_use.write(port, consumed);
                receiver_credits_consumed.write(port, consumed);
                receiver_credits_freed.write(port, 0);
                receiver_credits_advertised.write(port, 0);
                session.write(port, 0);
                sender_session.write(port, 0);
                own_epoch.write(port, own); // after the credits that are announced with them
                peer_epoch.write(port, peer);
            }
            if (up) {
                // -------------------------------------------------- the peer has echoed the own epoch: the link is up
                bit<8> lossless = 0;
                link_ups.count(port);
                join_epochs();
                if (current == 0) {
                    current = 1;
                }
                if (hdr.link_init.capabilities & CAPABILITY_CBFC != 0) {
                    lossless = hdr.link_init.lossless_vcs & meta.profile.lossless_vcs;
                }
                link_format.write(
                    port, 8w0 ++ lossless ++ hdr.link_init.credit_size ++ hdr.link_init.packet_overhead);
                sender_credits_consumed.write(port, hdr.link_init.credits_in_use);
                sender_credits_freed.write(port, 0);
                sender_credit_limit.write(port, hdr.link_init.credit_limit);
                sender_credits_used_watermark.write(port, hdr.link_init.credits_in_use);
                wrong_updates.write(port, 0);
                last_session.write(port, current);
                session.write(port, current);
                meta.came_up = 1;
                // The first CF_UPDATE goes out at once, after the echo that brings the peer up.
                meta.verdict = VERDICT_ANSWER;
                meta.clone_make = meta.make;
                meta.make = MAKE_CF_UPDATE;
                if (meta.clone_make != MAKE_NOTHING) {
                    clone_preserving_field_list(CloneType.I2E, port, CLONE_FIELDS);
                }
            }
        } else if (meta.verdict == VERDICT_UNDECIDED && hdr.link_init.isValid()) {
            meta.verdict = REASON_LINK_NOT_UP; // a managed port without a profile
        }
    }
}

#endif
