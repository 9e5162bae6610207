"""A Wireshark dissector for every EthLink frame: Lua, with its field tables made from the codec."""
