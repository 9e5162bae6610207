-- Wireshark fields of every header, made from the layouts: `ethlink.lsu.request` is field `request` of `lsu_t`.

local numbers = require("ethlink.layouts")

local fields = { all = {}, of = {} }

local INTEGERS = { ProtoField.uint8, ProtoField.uint16, ProtoField.uint24, ProtoField.uint32 }

local function register(field)
    fields.all[#fields.all + 1] = field
    return field
end

local ABBREVIATIONS = { f = "F", vc = "VC", ecn = "ECN", crc = "CRC", dst = "Destination", src = "Source" }

local function title(name)
    if ABBREVIATIONS[name] then return ABBREVIATIONS[name] end
    local text = name:gsub("_", " ")
    return text:sub(1, 1):upper() .. text:sub(2)
end

-- Return what places `width` bits at bit `first` of a header: bytes and mask (nil when the field fills its bytes).
local function place(first, width)
    local from = math.floor(first / 8)
    local bytes = math.floor((first + width - 1) / 8) - from + 1
    local below = (from + bytes) * 8 - first - width
    local mask = nil
    if width < bytes * 8 then mask = (2 ^ width - 1) * 2 ^ below end
    return from, bytes, mask
end

-- Return the Wireshark field of `width` bits.
local function integer(name, label, description, bytes, mask)
    if description.signed then return register(ProtoField.int8(name, label, base.DEC)) end
    local display = description.hex and base.HEX or base.DEC
    if bytes > 4 then return register(ProtoField.uint64(name, label, display)) end
    return register(INTEGERS[bytes](name, label, display, description.names, mask))
end

local function describe(layout, description, first)
    local name = "ethlink." .. layout .. "." .. description.name
    local entry = { name = description.name, first = first, bits = description.bits, signed = description.signed }
    entry.parts, entry.flags = {}, {}
    local label = title(description.name)
    if description.parts then
        local width = description.bits / description.parts
        for part = 0, description.parts - 1 do
            local from, bytes = place(first + part * width, width)
            local field = register(ProtoField.uint24(name .. ".vc" .. part, "VC " .. part, base.DEC))
            entry.parts[part] = { field = field, from = from, bytes = bytes }
        end
        entry.from, entry.bytes = place(first, description.bits)
        entry.label = label
        return entry
    end
    local mask
    entry.from, entry.bytes, mask = place(first, description.bits)
    entry.field = integer(name, label, description, entry.bytes, mask)
    for _, flag in ipairs(description.flags or {}) do
        local below = entry.bytes * 8 - (first % 8) - description.bits
        local flag_name = name .. "." .. flag.name:lower()
        local field = register(ProtoField.bool(flag_name, flag.name, entry.bytes * 8, nil, flag.value * 2 ^ below))
        entry.flags[#entry.flags + 1] = { name = flag.name, value = flag.value, field = field }
    end
    return entry
end

fields.header = {} -- the header as a whole, so that `ethlink.event` is a filter

for name, layout in pairs(numbers.layouts) do
    fields.header[name] = register(ProtoField.none("ethlink." .. name, name))
    local entries, first = {}, 0
    for _, description in ipairs(layout.fields) do
        entries[#entries + 1] = describe(name, description, first)
        first = first + description.bits
    end
    fields.of[name] = entries
end

-- Return the value of a field at `range`, the range of its header: a number, or a UInt64 for more than 32 bits.
local function value_of(range, entry)
    if entry.signed then return range(entry.from, entry.bytes):int() end
    if entry.bits > 32 then return range(entry.from, entry.bytes):uint64() end
    return range(entry.from, entry.bytes):bitfield(entry.first % 8, entry.bits)
end

-- Return all values of the header at the start of `range`, by field name; a field with a part per VC gives a table from 0.
function fields.read(layout, range)
    local values = {}
    for _, entry in ipairs(fields.of[layout]) do
        if entry.field then
            values[entry.name] = value_of(range, entry)
        else
            local lanes = {}
            for vc = 0, #entry.parts do
                lanes[vc] = range(entry.parts[vc].from, entry.parts[vc].bytes):uint()
            end
            values[entry.name] = lanes
        end
    end
    return values
end

-- Return the names of the flags that are set in `value`, as a list.
function fields.flags_set(layout, name, value)
    local set = {}
    for _, entry in ipairs(fields.of[layout]) do
        if entry.name == name then
            for _, flag in ipairs(entry.flags) do
                if math.floor(value / flag.value) % 2 == 1 then set[#set + 1] = flag.name end
            end
        end
    end
    return set
end

-- Add the header at the start of `range` to `tree`, one item per field; `notes[name]` follows the value of a field.
-- Returns the items by field name.
function fields.add(tree, layout, range, notes)
    local items = {}
    for _, entry in ipairs(fields.of[layout]) do
        local where = range(entry.from, entry.bytes)
        local item
        if entry.field then
            item = tree:add(entry.field, where)
            for _, flag in ipairs(entry.flags) do item:add(flag.field, where) end
        else
            item = tree:add(where, entry.label)
            for vc = 0, #entry.parts do
                item:add(entry.parts[vc].field, range(entry.parts[vc].from, entry.parts[vc].bytes))
            end
        end
        local note = notes[entry.name]
        if note then item:append_text((entry.field and " (" .. note .. ")") or ": " .. note) end
        items[entry.name] = item
    end
    return items
end

-- Fields that no header has: what the dissector finds out.
local function own(make, name, ...)
    return register(make("ethlink." .. name, ...))
end

local GOOD_OR_BAD = { [0] = "bad", [1] = "good", [2] = "not checked" }

fields.crc_status = own(ProtoField.uint8, "link.crc.status", "CRC status", base.DEC, GOOD_OR_BAD)
fields.crc_expected = own(ProtoField.uint32, "link.crc.expected", "Expected CRC", base.HEX)
fields.data = own(ProtoField.bytes, "data", "Data")
fields.bytes = own(ProtoField.uint32, "bytes", "Bytes of data", base.DEC)
fields.end_crc = own(ProtoField.uint32, "end_to_end_crc", "End-to-end CRC", base.HEX)
fields.end_crc_status = own(ProtoField.uint8, "end_to_end_crc.status", "CRC status", base.DEC, GOOD_OR_BAD)
fields.end_crc_expected = own(ProtoField.uint32, "end_to_end_crc.expected", "Expected CRC", base.HEX)
fields.placed = own(ProtoField.bytes, "tma.placed", "Blocks placed")
fields.asked = own(ProtoField.bytes, "tma.asked", "Further blocks")
fields.reason = own(ProtoField.uint8, "tma.reason", "Reason", base.DEC)
fields.new_session = own(ProtoField.uint16, "link_init.session", "Session of these epochs", base.HEX)
fields.extra = own(ProtoField.bytes, "extra", "Bytes after the end")
fields.response_in = own(ProtoField.framenum, "response_in", "Response in", base.NONE, frametype.RESPONSE)
fields.response_to = own(ProtoField.framenum, "response_to", "Response to", base.NONE, frametype.REQUEST)
fields.complete_in = own(ProtoField.framenum, "complete_in", "Complete in", base.NONE, frametype.RESPONSE)
fields.repeats = own(ProtoField.framenum, "repeats", "Seen before in", base.NONE, frametype.NONE)
fields.replay_of = own(ProtoField.framenum, "link.replay_of", "Replay of", base.NONE, frametype.NONE)
fields.replayed_in = own(ProtoField.framenum, "link.replayed_in", "Replayed in", base.NONE, frametype.NONE)
fields.time = own(ProtoField.relative_time, "time", "Time since request")
fields.source = own(ProtoField.string, "source", "From")
fields.destination = own(ProtoField.string, "destination", "To")

return fields
