#ifndef SEND_WINDOW_P4
#define SEND_WINDOW_P4

#include "../headers.p4"
#include "../registers.p4"

/* Whether a link with retry takes one more frame now: what is sent and not acknowledged has a limit, in frames and in
 * bytes, and so have the copies in the line, which would lose what exceeds its queue. A frame that alone is more than
 * the limit in bytes goes when nothing else is out. When the link has given up, the profile says what becomes of
 * frames. `frames` and `bytes` are what is granted to held frames and not numbered yet. */
control SendWindow(
    in bit<32> port,
    in session_t link_session,
    in bit<32> frame_bytes,
    in bit<32> frames,
    in bit<32> bytes,
    out window_t answer
) {
    llr_settings_t settings = 0;
    session_t flushed = 0;
    seq_t oldest = 0;
    seq_t next_seq = 0;
    bit<32> acknowledged = 0;
    bit<32> numbered = 0;
    bit<24> depth = 0;

    apply {
        answer = WINDOW_CLOSED;
        llr_settings.read(settings, port);
        llr_flushed_session.read(flushed, port);
        if (flushed == link_session) {
            if (flush_action_of(settings) == FLUSH_DISCARD) {
                answer = WINDOW_DISCARDS;
            } else if (flush_action_of(settings) == FLUSH_BEST_EFFORT) {
                answer = WINDOW_UNNUMBERED;
            }
        } else {
            // What frees before what takes: in between, the window looks smaller than it is.
            llr_unacknowledged_seq.read(oldest, port);
            llr_next_seq.read(next_seq, port);
            llr_bytes_acknowledged.read(acknowledged, port);
            llr_bytes_numbered.read(numbered, port);
            llr_line_depth.read(depth, 0);
            bit<32> out_frames = (bit<32>)(next_seq - oldest) + frames;
            bit<32> out_bytes = numbered - acknowledged + bytes;
            if (out_frames < (bit<32>)frames_max_of(settings) && depth < LINE_MOST
                && (out_frames == 0 || out_bytes + frame_bytes <= bytes_max_of(settings))) {
                answer = WINDOW_OPEN;
            }
        }
    }
}

#endif
