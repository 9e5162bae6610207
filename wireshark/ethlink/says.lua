-- What a header says, in words: notes behind the values of its fields, and the line for the Info column.

local numbers = require("ethlink.layouts")
local crc = require("ethlink.crc")
local fields = require("ethlink.fields")

local constants, enums = numbers.constants, numbers.enums

local says = { notes = {}, info = {} }

local function name_of(enum, value)
    return enums[enum][value] or (enum .. " " .. value)
end

local function hexadecimal(value)
    if type(value) == "number" then return string.format("0x%X", value) end
    local digits = value:tohex():upper():gsub("^0+", "")
    return "0x" .. (digits == "" and "0" or digits)
end

-- Return the number with a comma between thousands.
local function counted(number)
    local text = string.format("%d", number)
    local grouped = text:reverse():gsub("(%d%d%d)", "%1,"):reverse()
    return (grouped:gsub("^,", ""))
end

-- Return the name of an endpoint id: g1 is GPU 1, s1 the switch 0xF01, as the launcher names them.
function says.endpoint(id)
    if id == constants.NOBODY then return "nobody" end
    if id >= constants.FIRST_SWITCH_ID then return "s" .. (id - constants.FIRST_SWITCH_ID) end
    return "g" .. id
end

local function vcs(mask)
    local set = {}
    for vc = 0, constants.VC_COUNT - 1 do
        if math.floor(mask / 2 ^ vc) % 2 == 1 then set[#set + 1] = tostring(vc) end
    end
    return #set > 0 and "VC " .. table.concat(set, ", ") or "no VC"
end

-- Return the values per VC that `mask` selects, without zeros: "VC0 12, VC1 3".
local function lanes(values, mask)
    local shown = {}
    for vc = 0, constants.VC_COUNT - 1 do
        if math.floor((mask or 0xFF) / 2 ^ vc) % 2 == 1 and values[vc] ~= 0 then
            shown[#shown + 1] = string.format("VC%d %s", vc, counted(values[vc]))
        end
    end
    return #shown > 0 and table.concat(shown, ", ") or "all 0"
end

local function flags(layout, value)
    return table.concat(fields.flags_set(layout, layout == "link_init" and "capabilities" or "flags", value), ", ")
end

-- The states of LLR's sender and receiver, as docs/protocol.md numbers them (section 8).
local TX_STATES = { [0] = "OFF", "INIT", "ADVANCE", "REPLAY", "FLUSH" }
local RX_STATES = { [0] = "OFF", "SEND_ACKS", "SEND_NACK", "NACK_SENT" }

-- ------------------------------------------------------------------------------------------- notes behind field values

function says.notes.link(v)
    local set = flags("link", v.flags)
    return { flags = set ~= "" and set or nil }
end

function says.notes.oefh(v)
    return { dst = says.endpoint(v.dst), src = says.endpoint(v.src) }
end

function says.notes.lsu(v)
    local notes = { length = counted(v.length + 1) .. " bytes" }
    if v.status >= constants.LSU_STATUS_ECN_ECHO then
        notes.status = "the request met congestion"
        local reason = v.status % constants.LSU_STATUS_ECN_ECHO
        if reason ~= 0 then notes.status = name_of("LsuStatus", reason) .. ", " .. notes.status end
    end
    return notes
end

function says.notes.tma(v)
    local set = flags("tma", v.flags)
    local notes = { flags = set ~= "" and set or nil }
    if v.block < 32 then notes.block = counted(2 ^ v.block) .. " bytes" end
    return notes
end

function says.notes.event(v)
    local subject, detail = says.endpoint(v.subject), "port " .. v.detail
    return { subject = subject, detail = detail, timestamp = string.format("%.6f s", v.timestamp:tonumber() / 1e6) }
end

function says.notes.probe_retry(v)
    return { tx_state = TX_STATES[v.tx_state], rx_state = RX_STATES[v.rx_state] }
end

local function all_lanes(v)
    local notes = {}
    for name, value in pairs(v) do
        if type(value) == "table" then notes[name] = lanes(value) end
    end
    return notes
end

says.notes.probe_credits = all_lanes

function says.notes.link_init(v)
    local notes = all_lanes(v)
    notes.capabilities = v.capabilities ~= 0 and flags("link_init", v.capabilities) or "none"
    if v.credit_size < 32 then notes.credit_size = counted(2 ^ v.credit_size) .. " bytes" end
    notes.lossless_vcs = vcs(v.lossless_vcs)
    if v.peer_epoch == 0 then notes.peer_epoch = "not seen" end
    return notes
end

function says.notes.credit_update(v)
    return { vc_mask = vcs(v.vc_mask), credits = lanes(v.credits, v.vc_mask) }
end

-- -------------------------------------------------------------------------------------------------------- Info column

local function path(oefh)
    return says.endpoint(oefh.src) .. " -> " .. says.endpoint(oefh.dst)
end

function says.info.lsu(v, oefh)
    local what = name_of("LsuOpcode", v.opcode)
    if what == "NAK" then
        what = what .. " " .. name_of("LsuStatus", v.status % constants.LSU_STATUS_ECN_ECHO)
    elseif what ~= "ACK" then
        what = string.format("%s %d B", what, v.length + 1)
    end
    return string.format("%s %s req %d key %d @%s", what, path(oefh), v.request, v.key, hexadecimal(v.address))
end

-- `extra`: of a READ the further blocks that it asks for, of a NAK its reason.
function says.info.tma(v, oefh, extra)
    local what = name_of("TmaOpcode", v.opcode)
    local words = { string.format("%s %s msg %d", what, path(oefh), v.message) }
    if what == "ACK" then
        if v.offset >= v.total then
            words[1] = words[1] .. string.format(" all %s B placed", counted(v.total))
        else
            words[1] = words[1] .. string.format(" placed below %s of %s B", counted(v.offset), counted(v.total))
        end
    elseif what == "READ" then
        words[1] = words[1] .. string.format(", block %d of %s B", says.block(v), counted(v.total))
        if extra ~= "" then words[1] = words[1] .. " and " .. extra end
    elseif what == "NAK" then
        words[1] = string.format("NAK %s %s msg %d at %s", extra, path(oefh), v.message, counted(v.offset))
    else
        local span = "none"
        if v.length > 0 then span = counted(v.offset) .. "-" .. counted(v.offset + v.length - 1) end
        words[1] = string.format("%s %d B %s msg %d, ", what, v.length, path(oefh), v.message)
        words[1] = words[1] .. string.format("bytes %s of %s", span, counted(v.total))
    end
    words[2] = string.format("key %d @%s", v.key, hexadecimal(v.address))
    local set = flags("tma", v.flags)
    if set ~= "" then words[3] = set end
    return table.concat(words, " ")
end

function says.info.event(v, oefh)
    local what = name_of("EventType", v.type) .. " " .. says.endpoint(v.subject)
    return string.format("%s plane %d seq %d (%s)", what, v.plane, v.sequence, path(oefh))
end

-- `answer`: what follows the PROBE, as the layout `body`; nil where nothing does.
function says.info.probe(v, oefh, body, answer)
    local what = string.format("PROBE %s %s port %d", enums.ProbeOp[v.op] or ("op " .. v.op), path(oefh), v.port)
    if not answer then return what end
    what = what .. ": " .. name_of("LinkState", v.state):lower()
    if answer.session then what = what .. string.format(", session 0x%X", answer.session) end
    if body == "probe_credits" then
        local waiting = lanes(answer.held_frames)
        if waiting ~= "all 0" then what = what .. ", held " .. waiting end
    elseif body == "probe_retry" then
        local sends = TX_STATES[answer.tx_state] or answer.tx_state
        local receives = RX_STATES[answer.rx_state] or answer.rx_state
        what = what .. string.format(", sender %s %d-%d", sends, answer.unacknowledged_seq, answer.next_seq)
        what = what .. string.format(", receiver %s expects %d", receives, answer.expected_seq)
    end
    return what
end

function says.info.link_init(v)
    local peer = v.peer_epoch ~= 0 and string.format(" peer 0x%X", v.peer_epoch) or ""
    local offers = v.capabilities ~= 0 and " " .. flags("link_init", v.capabilities) or ""
    return string.format("epoch 0x%X%s%s, limit %s", v.own_epoch, peer, offers, lanes(v.credit_limit, v.lossless_vcs))
end

function says.info.credit_update(v, kind)
    return (kind == "CF_UPDATE" and "freed " or "consumed ") .. lanes(v.credits, v.vc_mask)
end

function says.info.notice(v)
    if enums.NoticeType[v.type] == "PORT_STATUS" then
        return string.format("Port %d is %s", v.port, v.state == 1 and "up" or "down")
    end
    return "Tick"
end

-- Return the number of the block that a TMA frame's offset is in.
function says.block(v)
    return v.block < 32 and math.floor(v.offset / 2 ^ v.block) or 0
end

-- Return the blocks whose bits are set in the bitmap of a TMA ACK or READ, whose first bit is of the block after `says.block`: as
-- a list of numbers, and as text with runs drawn together.
function says.blocks(bitmap, v)
    local set, runs, from = {}, {}, nil
    local first, last = says.block(v) + 1, bitmap:len() * 8
    for i = 0, last do
        local is_set = i < last and bitmap:bitfield(i, 1) == 1
        if is_set then
            set[#set + 1] = first + i
            from = from or first + i
        elseif from then
            local to = first + i - 1
            runs[#runs + 1] = from == to and tostring(from) or from .. "-" .. to
            from = nil
        end
    end
    return set, table.concat(runs, ", ")
end

-- Return a reason for a NAK by its number.
function says.reason(number)
    return name_of("LsuStatus", number)
end

-- Return the session that two epochs make.
function says.session_of(epoch, peer)
    local mixed = crc.xor(epoch, peer)
    local session = crc.xor(math.floor(mixed / 65536), mixed % 65536)
    return session ~= 0 and session or 1
end

-- What the link header adds to a line: sequences while LLR is on, and marks.
function says.link(v, kind)
    local set = {}
    for _, flag in ipairs(fields.flags_set("link", "flags", v.flags)) do set[flag] = true end
    local words = {}
    if set.LLR then words[1] = string.format("seq %d", v.seq) end
    if set.LLR or kind == "LLR_ACK" or kind == "LLR_NACK" then words[#words + 1] = string.format("ack %d", v.ack) end
    if set.REPLAY then words[#words + 1] = "replay" end
    if set.POISON then words[#words + 1] = "poisoned" end
    return #words > 0 and " [" .. table.concat(words, " ") .. "]" or ""
end

return says
