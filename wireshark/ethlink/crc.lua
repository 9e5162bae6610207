-- CRC-32 of IEEE 802.3, as zlib computes it.

-- Wireshark's `bit`, Lua 5.2's `bit32`, or, where a newer Lua has neither, its operator, which older ones cannot read.
local bits = bit or bit32
local bxor = bits and bits.bxor or load("return function(a, b) return a ~ b end")()
local POLYNOMIAL = 0xEDB88320

local crc = {}

-- The result of `bit` is signed, that of `bit32` is not; arithmetic on it wants it not to be.
local function unsigned(value)
    return value % 4294967296
end

-- remainder[a][b]: what byte b does to a register whose lowest byte is a. Two-dimensional, so that the loop below needs one
-- call per byte: calls are what costs in Lua, and a capture holds many bytes.
local remainder = {}
do
    local of_byte = {}
    for byte = 0, 255 do
        local value = byte
        for _ = 1, 8 do
            local half = math.floor(value / 2)
            value = value % 2 == 1 and unsigned(bxor(half, POLYNOMIAL)) or half
        end
        of_byte[byte] = value
    end
    for low = 0, 255 do
        local row = {}
        for byte = 0, 255 do row[byte] = of_byte[unsigned(bxor(low, byte))] end
        remainder[low] = row
    end
end

-- Return the exclusive or of two numbers of at most 32 bits.
function crc.xor(a, b)
    return unsigned(bxor(a, b))
end

-- Return the CRC-32 of a string; `seed` is that of what comes before it.
function crc.crc32(bytes, seed)
    local value = unsigned(bxor(seed or 0, 0xFFFFFFFF))
    local byte_at = bytes.byte
    for i = 1, #bytes do
        local low = value % 256
        value = bxor(remainder[low][byte_at(bytes, i)], (value - low) / 256) % 4294967296
    end
    return unsigned(bxor(value, 0xFFFFFFFF))
end

return crc
