-- Which frame answers which: requests and responses by their numbers, bring-ups by their epochs, probes by their port.
--
-- Frames are looked at in order once (Wireshark's first pass); what is found is kept by frame number, so that later looks
-- at a frame show answers that came after it. A request that is seen again (sent again, or captured at the next hop as
-- well) belongs to the exchange that it began.

local exchanges = {}

local open, of_frame, firsts, repeats, sent, replayed

function exchanges.forget()
    open, of_frame, firsts, repeats, sent, replayed = {}, {}, {}, {}, {}, {}
end
exchanges.forget()

-- Note that frame `pinfo` asks under `key`. Returns its exchange: request (first frame that asked), time (when), response
-- (first answer) and complete (answer that ended it), the last two nil until they come.
function exchanges.ask(key, pinfo)
    if pinfo.visited or of_frame[pinfo.number] then return of_frame[pinfo.number] end
    open[key] = open[key] or { request = pinfo.number, time = pinfo.rel_ts }
    of_frame[pinfo.number] = open[key]
    return open[key]
end

-- Note that frame `pinfo` asks under several keys at once, and anew: whatever was asked under them before, answers that
-- come now are to this frame. Returns its exchange.
function exchanges.ask_anew(keys, pinfo)
    if pinfo.visited or of_frame[pinfo.number] then return of_frame[pinfo.number] end
    local exchange = { request = pinfo.number, time = pinfo.rel_ts }
    for _, key in ipairs(keys) do open[key] = exchange end
    of_frame[pinfo.number] = exchange
    return exchange
end

-- Note that frame `pinfo` answers what was asked under `key`, and, where `ends` is set, that there is no more to come.
-- Returns the exchange, nil where nothing was asked.
function exchanges.answer(key, pinfo, ends)
    if pinfo.visited or of_frame[pinfo.number] then return of_frame[pinfo.number] end
    local exchange = open[key]
    if not exchange then return nil end
    exchange.response = exchange.response or pinfo.number
    if ends then exchange.complete = exchange.complete or pinfo.number end
    of_frame[pinfo.number] = exchange
    return exchange
end

-- Let the next question under `key` begin an exchange of its own.
function exchanges.close(key, pinfo)
    if not pinfo.visited then open[key] = nil end
end

-- Return the number of the first frame that says what frame `pinfo` says (`key`), nil where that is this frame.
function exchanges.repeats(key, pinfo)
    if not pinfo.visited then
        firsts[key] = firsts[key] or pinfo.number
        if firsts[key] ~= pinfo.number then repeats[pinfo.number] = firsts[key] end
    end
    return repeats[pinfo.number]
end

-- Note that frame `pinfo` is a numbered one that `key` tells from all others of its link. Returns, of a replay, the number of
-- the frame in which it was seen first, and, of a frame that is replayed, that of its first replay; nil for what is not known.
function exchanges.number(key, pinfo, is_replay)
    if not pinfo.visited then
        if not is_replay then
            sent[key] = pinfo.number
        elseif sent[key] then
            replayed[pinfo.number] = { of = sent[key] }
            replayed[sent[key]] = replayed[sent[key]] or { by = pinfo.number }
        end
    end
    local found = replayed[pinfo.number] or {}
    return found.of, found.by
end

return exchanges
