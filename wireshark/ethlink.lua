-- EthLink for Wireshark and tshark: every frame of docs/protocol.md. `make wireshark` installs it; see docs/wireshark.md.
--
-- This file decides what is EthLink and hands it out; the modules in ethlink/ do the rest. Field widths and numbers are
-- not here: wireshark/bundle.py makes the module ethlink.layouts from the codec, and one file of all.
--
-- An EthLink frame begins at byte 0, where Wireshark expects an Ethernet header: captures of veths and the switch's own
-- say "Ethernet". So this dissector stands in Ethernet's place and passes on to Ethernet whatever is not EthLink.

local form = require("ethlink.form")
local fields = require("ethlink.fields")
local frame = require("ethlink.frame")
local exchanges = require("ethlink.exchanges")

local ethlink = Proto("ethlink", "EthLink")
ethlink.fields = fields.all
ethlink.experts = frame.experts

local NEVER, BY_CRC, AUTO, ALWAYS = 0, 1, 2, 3
ethlink.prefs.recognise = Pref.enum(
    "Ethernet frames that are EthLink",
    AUTO,
    "Which frames of an Ethernet capture to take for EthLink. The link header's CRC is the proof; a frame whose CRC is " ..
        "wrong has none, and is taken for EthLink when it is like those that the capture has shown before.",
    {
        { 1, "Those whose CRC is right, and the like of them", AUTO },
        { 2, "Only those whose CRC is right", BY_CRC },
        { 3, "All", ALWAYS },
        { 4, "None", NEVER },
    },
    false
)

local sessions = {} -- of the frames that have been proved to be EthLink in this capture

function ethlink.init()
    sessions = {}
    frame.forget()
    exchanges.forget()
end

-- Tell whether a frame is EthLink, as the preference asks.
local function recognised(tvb, pinfo)
    local which = ethlink.prefs.recognise
    if which == NEVER then return false end
    if which == ALWAYS then return true end
    if form.is_notice(tvb) then return true end
    if tvb:len() == tvb:reported_len() then
        if frame.crc_holds(tvb, pinfo) then
            sessions[form.session(tvb)] = true
            return true
        end
    elseif form.announced_length(tvb) == tvb:reported_len() then
        return true -- cut by the capture: its length is the proof
    end
    return which == AUTO and next(sessions) ~= nil and form.is_alike(tvb, sessions)
end

local encapsulations = DissectorTable.get("wtap_encap")
local ETHERNET = 1 -- of Wireshark's numbers for link types; the table `wtap` that named it has gone in newer versions
local ethernet = encapsulations:get_dissector(ETHERNET)

function ethlink.dissector(tvb, pinfo, tree)
    if not recognised(tvb, pinfo) then return ethernet:call(tvb, pinfo, tree) end
    frame.dissect(ethlink, tvb, pinfo, tree)
    return tvb:len()
end

encapsulations:add(ETHERNET, ethlink)
