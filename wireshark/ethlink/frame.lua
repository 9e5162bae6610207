-- Dissect one frame: link header, what it carries, both CRCs, what answers what, and everything that is wrong with it.

local numbers = require("ethlink.layouts")
local crc = require("ethlink.crc")
local exchanges = require("ethlink.exchanges")
local fields = require("ethlink.fields")
local form = require("ethlink.form")
local says = require("ethlink.says")

local layouts, constants, enums = numbers.layouts, numbers.constants, numbers.enums
local CRC_BYTES = constants.CRC_BYTES

local frame = { experts = {} }

-- --------------------------------------------------------------------------------------------------------- expert info

local function finding(name, text, group, severity)
    local expert_info = ProtoExpert.new("ethlink.expert." .. name, text, group, severity)
    frame.experts[#frame.experts + 1] = expert_info
    return expert_info
end

local function malformed(name, text)
    return finding(name, text, expert.group.MALFORMED, expert.severity.ERROR)
end

local BAD_CRC = finding("bad_crc", "Bad CRC", expert.group.CHECKSUM, expert.severity.ERROR)
local TRUNCATED = malformed("truncated", "The frame ends too early")
local OVERLONG = malformed("overlong", "Bytes after the end")
local BYTE_0 = malformed("odd_byte_0", "The lowest bit of byte 0 is set, as of an Ethernet multicast")
local BYTE_12 = malformed("high_byte_12", "Byte 12 is above 0x7F: the kernel may take it for a VLAN tag")
local UNKNOWN = malformed("unknown", "Unknown value")
local BAD_VALUE = malformed("bad_value", "A value that cannot be")
local FORGED = finding("forged_event", "An EVENT whose source is no switch", expert.group.SECURITY, expert.severity.WARN)
local NAK = finding("nak", "Refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
local POISON = finding("poison", "Poisoned: its sender knows that it is bad", expert.group.CHECKSUM, expert.severity.WARN)

local function worth_a_look(name, text)
    return finding(name, text, expert.group.SEQUENCE, expert.severity.NOTE)
end

local REPLAY = worth_a_look("replay", "Replay by the link")
local LLR_NACK = worth_a_look("llr_nack", "The receiver asks for a replay")
local SEEN = worth_a_look("repeats", "Seen before: sent again, or captured twice on its way")
local CONGESTION = worth_a_look("congestion", "Congestion experienced")
local EVENT = worth_a_look("event", "A path has changed")

-- Add a finding to an item, with a text of its own where `format` is given.
local function say(item, which, format, ...)
    if format then
        item:add_proto_expert_info(which, string.format(format, ...))
    else
        item:add_proto_expert_info(which)
    end
end

-- --------------------------------------------------------------------------------------------------------------- CRCs

-- By frame number: {link =, end_to_end =}. A frame is looked at many times; computing its CRC is what costs most.
local known = {}

function frame.forget()
    known = {}
end

local function remembered(pinfo, which, compute)
    local of_frame = known[pinfo.number]
    if not of_frame then
        of_frame = {}
        known[pinfo.number] = of_frame
    end
    of_frame[which] = of_frame[which] or compute()
    return of_frame[which]
end

local function link_crc(tvb, pinfo)
    return remembered(pinfo, "link", function()
        local link = layouts.link.bytes
        local seed = crc.crc32(tvb:raw(0, link - CRC_BYTES))
        return tvb:len() > link and crc.crc32(tvb:raw(link), seed) or seed
    end)
end

local function end_to_end_crc(tvb, pinfo, oefh, from, to)
    return remembered(pinfo, "end_to_end", function()
        local ids = oefh.src * 4096 + oefh.dst
        local seed = crc.crc32(string.char(math.floor(ids / 65536), math.floor(ids / 256) % 256, ids % 256))
        return crc.crc32(tvb:raw(from, to - from), seed)
    end)
end

-- Tell whether the link header's CRC holds, for a frame that was captured whole.
function frame.crc_holds(tvb, pinfo)
    local link = layouts.link.bytes
    if tvb:len() < link or tvb:len() > constants.MAX_FRAME then return false end
    return tvb(link - CRC_BYTES, CRC_BYTES):uint() == link_crc(tvb, pinfo)
end

local BAD, GOOD, NOT_CHECKED = 0, 1, 2

-- Add what checking a CRC gave to its item. `expected` is nil for a frame that was captured in part.
local function add_check(item, range, expected, status, expected_field, whose)
    local actual = range:uint()
    local result = expected == nil and NOT_CHECKED or actual == expected and GOOD or BAD
    item:append_text(({ [BAD] = " [bad]", [GOOD] = " [good]", [NOT_CHECKED] = " [not checked]" })[result])
    item:add(status, result):set_generated()
    if expected then item:add(expected_field, expected):set_generated() end
    if result == BAD then
        say(item, BAD_CRC, "Bad %s CRC: 0x%08X, should be 0x%08X", whose, actual, expected)
    end
    return result ~= BAD
end

-- --------------------------------------------------------------------------------------------------------------- parts

-- Add the header `layout` at `at`. Returns its values and items, or nil where the frame ends too early.
local function add_header(context, layout, at, title)
    local size = layouts[layout].bytes
    if context.tvb:len() < at + size then
        local left = context.tvb:len() - at
        if context.whole then
            say(context.tree, TRUNCATED, "The frame ends in %s: %d of %d bytes", title, left, size)
            context.wrong = context.wrong or "truncated"
        end
        if left > 0 then context.tree:add(fields.data, context.tvb(at)) end
        return nil
    end
    local range = context.tvb(at, size)
    local values = fields.read(layout, range)
    local tree = context.tree:add(fields.header[layout], range):set_text(title)
    local notes = says.notes[layout]
    return values, fields.add(tree, layout, range, notes and notes(values) or {}), tree
end

-- Flag what follows the end of a frame at `at`.
local function check_end(context, at)
    local left = context.tvb:reported_len() - at
    if left > 0 and context.tvb:len() > at then
        say(context.tree:add(fields.extra, context.tvb(at)), OVERLONG, "%d bytes after the end", left)
        context.wrong = context.wrong or "overlong"
    end
end

local function unknown(context, item, what, value)
    say(item, UNKNOWN, "Unknown %s %d", what, value)
    context.wrong = context.wrong or "unknown " .. what
end

-- Add the data of `bytes` bytes at `at` and the end-to-end CRC behind them. `from` is where the transaction begins.
local function add_data(context, oefh, from, at, bytes)
    local tvb = context.tvb
    local after = at + bytes
    if tvb:reported_len() < after + CRC_BYTES then
        local left = tvb:reported_len() - at
        local least = bytes + CRC_BYTES
        say(context.tree, TRUNCATED, "The frame ends too early: %d bytes of data and CRC, should be %d", left, least)
        context.wrong = context.wrong or "truncated"
        if tvb:len() > at then context.tree:add(fields.data, tvb(at)) end
        return
    end
    if bytes > 0 and tvb:len() > at then
        context.tree:add(fields.data, tvb(at, math.min(bytes, tvb:len() - at)))
        context.tree:add(fields.bytes, bytes):set_generated()
    end
    if tvb:len() >= after + CRC_BYTES then
        local range = tvb(after, CRC_BYTES)
        local expected = end_to_end_crc(tvb, context.pinfo, oefh, from, after)
        local item = context.tree:add(fields.end_crc, range)
        if not add_check(item, range, expected, fields.end_crc_status, fields.end_crc_expected, "end-to-end") then
            context.wrong = context.wrong or "bad end-to-end CRC"
        end
    end
    check_end(context, after + CRC_BYTES)
end

-- Show what frame belongs to what: a request with its response, and the other way.
local function add_exchange(context, exchange)
    if not exchange then return end
    local number, tree = context.pinfo.number, context.tree
    if exchange.request ~= number then
        if exchange.response == number or context.is_answer then
            tree:add(fields.response_to, exchange.request):set_generated()
            local seconds = context.pinfo.rel_ts - exchange.time
            local whole = math.floor(seconds)
            tree:add(fields.time, NSTime.new(whole, math.floor((seconds - whole) * 1e9 + 0.5))):set_generated()
        end
    end
    if not context.is_answer then
        if exchange.response then tree:add(fields.response_in, exchange.response):set_generated() end
        if exchange.complete then tree:add(fields.complete_in, exchange.complete):set_generated() end
    end
end

local function add_repeat(context, key)
    local first = exchanges.repeats(key, context.pinfo)
    if first then say(context.tree:add(fields.repeats, first):set_generated(), SEEN) end
end

-- ---------------------------------------------------------------------------------------------------- what DATA carries

local carried = {}

function carried.lsu(context, oefh, at)
    local v, items = add_header(context, "lsu", at, "Load/store (LSU)")
    if not v then return end
    context.info = says.info.lsu(v, oefh)
    local opcode = enums.LsuOpcode[v.opcode]
    if not opcode then unknown(context, items.opcode, "opcode", v.opcode) end
    if opcode == "NAK" then say(items.status, NAK, "Refused: %s", context.info) end
    if opcode and opcode:find("^ATOMIC") and v.length + 1 ~= constants.ATOMIC_BYTES then
        say(items.length, BAD_VALUE, "An atomic is of %d bytes", constants.ATOMIC_BYTES)
    end
    add_data(context, oefh, at, at + layouts.lsu.bytes, form.lsu_data_bytes(v.opcode, v.length))
    local numbered = string.format("%d.%d", v.incarnation, v.request)
    local asked = string.format("lsu %d %d %s", oefh.src, oefh.dst, numbered)
    if v.opcode < constants.LSU_FIRST_RESPONSE then
        add_exchange(context, exchanges.ask(asked, context.pinfo))
    else
        context.is_answer = true
        add_exchange(context, exchanges.answer(string.format("lsu %d %d %s", oefh.dst, oefh.src, numbered), context.pinfo))
    end
    add_repeat(context, asked .. " " .. v.opcode)
end

-- What an ACK's or READ's bitmap, or a NAK's byte, says. Returns the text for the Info column and the blocks of a READ.
local function add_tma_payload(context, v, opcode, at)
    if v.length == 0 or context.tvb:len() < at + v.length then return "", {} end
    local payload = context.tvb(at, v.length)
    if opcode == "NAK" then
        local reason = says.reason(payload(0, 1):uint())
        context.tree:add(fields.reason, payload(0, 1)):append_text(" (" .. reason .. ")")
        return reason, {}
    end
    local blocks, text = says.blocks(payload, v)
    local field = opcode == "ACK" and fields.placed or fields.asked
    local title = opcode == "ACK" and "Blocks placed: " or "Further blocks: "
    context.tree:add(field, payload, payload:raw(), title .. (text ~= "" and text or "none")):set_generated()
    return text, blocks
end

-- Link a TMA frame to what it answers, or to its answers: a WRITE to the ACKs of its message, a READ to the blocks that come of
-- it.
local function add_tma_exchange(context, oefh, v, opcode, blocks)
    local numbered = string.format("%d.%d", v.incarnation, v.message)
    local out = string.format("%d %d %s", oefh.src, oefh.dst, numbered)
    local back = string.format("%d %d %s", oefh.dst, oefh.src, numbered)
    local block = says.block(v)
    context.is_answer = opcode ~= "WRITE" and opcode ~= "READ"
    if opcode == "WRITE" then
        add_exchange(context, exchanges.ask("write " .. out, context.pinfo))
    elseif opcode == "READ" then
        local keys = { "read " .. out .. " " .. block }
        for _, each in ipairs(blocks) do keys[#keys + 1] = "read " .. out .. " " .. each end
        add_exchange(context, exchanges.ask_anew(keys, context.pinfo))
    else
        local read = opcode ~= "ACK" and exchanges.answer("read " .. back .. " " .. block, context.pinfo)
        local ends = opcode == "NAK" or v.offset >= v.total
        add_exchange(context, read or exchanges.answer("write " .. back, context.pinfo, ends))
    end
    if opcode == "WRITE" or opcode == "READ_DATA" then
        add_repeat(context, string.format("tma %s %d %d", out, v.opcode, v.offset))
    end
end

function carried.tma(context, oefh, at)
    local v, items = add_header(context, "tma", at, "RDMA (TMA)")
    if not v then return end
    local opcode = enums.TmaOpcode[v.opcode]
    if not opcode then unknown(context, items.opcode, "opcode", v.opcode) end
    if v.length > constants.TMA_MAX_BYTES then
        say(items.length, BAD_VALUE, "More than %d bytes in a frame", constants.TMA_MAX_BYTES)
    end
    if (opcode == "WRITE" or opcode == "READ_DATA") and v.offset + v.length > v.total then
        say(items.offset, BAD_VALUE, "Bytes up to %d of a message of %d", v.offset + v.length, v.total)
    end
    local after = at + layouts.tma.bytes
    local text, blocks = "", {}
    if opcode == "ACK" or opcode == "READ" or opcode == "NAK" then
        text, blocks = add_tma_payload(context, v, opcode, after)
    end
    context.info = says.info.tma(v, oefh, text)
    if opcode == "NAK" then say(items.opcode, NAK, "Refused: %s", context.info) end
    add_data(context, oefh, at, after, v.length)
    add_tma_exchange(context, oefh, v, opcode, blocks)
end

function carried.event(context, oefh, at)
    local v, items = add_header(context, "event", at, "Event")
    if not v then return end
    context.info = says.info.event(v, oefh)
    if enums.EventType[v.type] then
        say(items.type, EVENT, "%s", context.info)
    else
        unknown(context, items.type, "event", v.type)
    end
    if oefh.src < constants.FIRST_SWITCH_ID or oefh.src > constants.MAX_SWITCH_ID then
        say(items.type, FORGED, "An EVENT from %s, which is no switch", says.endpoint(oefh.src))
    end
end

local QUESTIONS = {} -- operations of a PROBE that are answered
for _, question in pairs(numbers.probe_question) do QUESTIONS[question] = true end

function carried.probe(context, oefh, at)
    local v = add_header(context, "probe", at, "Probe")
    if not v then return end
    local body = numbers.body_of_probe[v.op]
    local answer
    if body then answer = add_header(context, body, at + layouts.probe.bytes, "State of a port") end
    context.info = says.info.probe(v, oefh, body, answer)
    if QUESTIONS[v.op] then
        local asked = string.format("probe %d %d %d %d", oefh.src, oefh.dst, v.port, v.op)
        add_exchange(context, exchanges.ask(asked, context.pinfo))
    elseif body then
        local asked = string.format("probe %d %d %d %d", oefh.dst, oefh.src, v.port, numbers.probe_question[v.op])
        context.is_answer = true
        add_exchange(context, exchanges.answer(asked, context.pinfo, true))
        exchanges.close(asked, context.pinfo)
    end
end

-- --------------------------------------------------------------------------------------------- what follows the link header

local bodies = {}

function bodies.oefh(context, at)
    local v, items, tree = add_header(context, "oefh", at, "Forwarding header (OEFH)")
    if not v then return end
    local source, destination = says.endpoint(v.src), says.endpoint(v.dst)
    tree:append_text(string.format(", %s -> %s, VC %d", source, destination, v.vc))
    tree:add(fields.source, source):set_generated()
    tree:add(fields.destination, destination):set_generated()
    context.pinfo.cols.src:set(source)
    context.pinfo.cols.dst:set(destination)
    context.info = source .. " -> " .. destination
    if v.version ~= constants.OEFH_VERSION then return unknown(context, items.version, "version", v.version) end
    if v.ecn == enums.Ecn.CONGESTION_EXPERIENCED then say(items.ecn, CONGESTION) end
    if v.dst == constants.NOBODY then say(items.dst, BAD_VALUE, "Nobody has this id") end
    local header = numbers.header_of_next[v.next]
    if not header then return unknown(context, items.next, "next", v.next) end
    if v.vc == enums.Vc.CONTROL and (header == "lsu" or header == "tma") then
        say(items.vc, BAD_VALUE, "VC %d is for EVENT and PROBE", v.vc)
    end
    carried[header](context, v, at + layouts.oefh.bytes)
end

function bodies.link_init(context, at)
    local v, items, tree = add_header(context, "link_init", at, context.kind)
    if not v then return end
    context.info = context.kind .. " " .. says.info.link_init(v)
    if v.version ~= constants.INIT_VERSION then unknown(context, items.version, "version", v.version) end
    if v.own_epoch == 0 then say(items.own_epoch, BAD_VALUE, "An epoch is never 0") end
    if v.peer_epoch ~= 0 then
        tree:add(fields.new_session, says.session_of(v.own_epoch, v.peer_epoch)):set_generated()
    end
    if context.kind == "LLR_INIT" then
        add_exchange(context, exchanges.ask("init " .. v.own_epoch, context.pinfo))
    else
        context.is_answer = true
        add_exchange(context, exchanges.answer("init " .. v.peer_epoch, context.pinfo, true))
        exchanges.close("init " .. v.peer_epoch, context.pinfo)
    end
    check_end(context, at + layouts.link_init.bytes)
end

function bodies.credit_update(context, at)
    local v = add_header(context, "credit_update", at, context.kind)
    if not v then return end
    context.info = context.kind .. " " .. says.info.credit_update(v, context.kind)
    check_end(context, at + layouts.credit_update.bytes)
end

function bodies.llr_control(context, at)
    local v, _, tree = add_header(context, "llr_control", at, context.kind)
    if not v then return end
    if context.kind == "LLR_NACK" then say(tree, LLR_NACK, "The receiver asks for what follows %d", context.link.ack) end
    check_end(context, at + layouts.llr_control.bytes)
end

-- ------------------------------------------------------------------------------------------------------------ the frame

local function dissect_notice(context)
    local at = layouts.link.bytes
    context.tree:add(context.tvb(0, at), "Link header: none, the notice comes from the switch's own target")
    local v = add_header(context, "notice", at, "Notice")
    context.pinfo.cols.info:set(says.info.notice(v))
    context.tree:append_text(", " .. says.info.notice(v))
end

-- Link a replayed frame and what it repeats. The number alone does not tell the frames of both directions apart; their ends do,
-- which are a CRC or credits.
local function add_replay(context, item, is_replay)
    local tvb, v = context.tvb, context.link
    local tail = math.min(tvb:len() - layouts.link.bytes, 24)
    local key = string.format("%d %d %d %s", v.session, v.seq, tvb:reported_len(), tvb:raw(tvb:len() - tail, tail))
    local of, by = exchanges.number(key, context.pinfo, is_replay)
    if of then item:add(fields.replay_of, of):set_generated() end
    if by then item:add(fields.replayed_in, by):set_generated() end
end

-- Dissect the frame `tvb` of protocol `proto` into `tree` and the columns.
function frame.dissect(proto, tvb, pinfo, tree)
    pinfo.cols.protocol:set("EthLink")
    pinfo.cols.info:clear()
    local top = tree:add(proto, tvb())
    local context = { tvb = tvb, pinfo = pinfo, tree = top, whole = tvb:len() == tvb:reported_len() }
    if form.is_notice(tvb) then return dissect_notice(context) end
    local v, items = add_header(context, "link", 0, "Link header")
    if not v then
        pinfo.cols.info:set("[truncated]")
        return
    end
    context.link, context.kind = v, enums.Kind[v.kind]
    local range = tvb(layouts.link.bytes - CRC_BYTES, CRC_BYTES)
    local expected = context.whole and link_crc(tvb, pinfo) or nil
    if not add_check(items.crc, range, expected, fields.crc_status, fields.crc_expected, "link") then
        context.wrong = "bad CRC"
    end
    if v.flags % 2 == 1 then say(items.flags, BYTE_0) end
    if tvb:len() > layouts.link.bytes and tvb(layouts.link.bytes, 1):uint() > 0x7F then say(top, BYTE_12) end
    local body = numbers.body_of_kind[v.kind]
    context.info = context.kind or ("kind " .. v.kind)
    if body then
        bodies[body](context, layouts.link.bytes)
    else
        unknown(context, items.kind, "kind", v.kind)
        if tvb:len() > layouts.link.bytes then top:add(fields.data, tvb(layouts.link.bytes)) end
    end
    local set = {}
    for _, flag in ipairs(fields.flags_set("link", "flags", v.flags)) do set[flag] = true end
    if set.POISON then say(items.flags, POISON) end
    if set.REPLAY then say(items.flags, REPLAY) end
    if set.LLR and not context.wrong then add_replay(context, items.seq, set.REPLAY) end
    local line = context.info .. says.link(v, context.kind)
    top:append_text(", " .. line)
    pinfo.cols.info:set(line .. (context.wrong and " [" .. context.wrong .. "]" or ""))
end

return frame
