-- What a frame looks like before anything in it is believed: enough to tell EthLink from Ethernet.

local numbers = require("ethlink.layouts")

local layouts, constants = numbers.layouts, numbers.constants
local LINK, OEFH, LSU, TMA = layouts.link.bytes, layouts.oefh.bytes, layouts.lsu.bytes, layouts.tma.bytes

local form = {}

-- Return the length that a frame's headers announce, or nil where they announce none (EVENT, PROBE) or are cut.
function form.announced_length(tvb)
    if tvb:len() < LINK + OEFH or not form.is_plausible(tvb) then return nil end
    local kind = tvb(0, 1):bitfield(0, 4)
    local body = numbers.body_of_kind[kind]
    if body ~= "oefh" then return LINK + layouts[body].bytes end
    local header = numbers.header_of_next[tvb(LINK + 4, 1):bitfield(0, 4)]
    local at = LINK + OEFH
    if header == "lsu" and tvb:len() >= at + LSU then
        return at + LSU + form.lsu_data_bytes(tvb(at, 1):bitfield(0, 4), tvb(at + 1, 1):uint()) + constants.CRC_BYTES
    elseif header == "tma" and tvb:len() >= at + TMA then
        return at + TMA + tvb(at + 10, 2):uint() + constants.CRC_BYTES
    end
    return nil
end

-- Return the bytes of data of an LSU frame by its opcode and length field (bytes - 1).
function form.lsu_data_bytes(opcode, length)
    local factor = numbers.lsu_data_factor[opcode] or 0
    return factor * (length + 1)
end

-- Tell whether a frame keeps the rules that hold for every EthLink frame, whatever it carries.
function form.is_plausible(tvb)
    if tvb:len() < LINK + OEFH or tvb:reported_len() > constants.MAX_FRAME then return false end
    local first = tvb(0, 1):uint()
    return first % 2 == 0 and numbers.body_of_kind[math.floor(first / 16)] ~= nil and tvb(LINK, 1):uint() < 0x80
end

-- Return the session in a frame's link header.
function form.session(tvb)
    return tvb(6, 2):uint()
end

-- Tell whether a frame without a right CRC is like EthLink all the same. Many Ethernet addresses would make a plausible link
-- header, so it takes more: the length that it announces, a known session, or the zeros of an open port and of LLR_INIT.
function form.is_alike(tvb, sessions)
    if not form.is_plausible(tvb) then return false end
    if form.announced_length(tvb) == tvb:reported_len() then return true end
    local session = form.session(tvb)
    if session == 0 then return tvb:raw(1, 7) == string.rep("\0", 7) end
    return sessions[session] == true
end

-- Tell whether a frame is a notice: what a switch's target tells the switch program on its event port.
function form.is_notice(tvb)
    if tvb:reported_len() ~= LINK + layouts.notice.bytes or tvb:len() ~= tvb:reported_len() then return false end
    return tvb:raw(0, LINK) == string.rep("\0", LINK) and numbers.enums.NoticeType[tvb(LINK, 1):uint()] ~= nil
end

return form
