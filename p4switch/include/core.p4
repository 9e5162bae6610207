/* P4_16 core library, as p4switch provides it: the names, types and signatures of the P4_16 language specification. */
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,         // extract, advance or lookahead ran past the end of the packet
    NoMatch,                // no case of a select matched
    StackOutOfBounds,       // .next or .last outside of a header stack
    HeaderTooShort,         // a varbit field would exceed its maximum
    ParserTimeout,
    ParserInvalidArgument   // a varbit size that the target cannot do
}

extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

extern packet_out {
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);

extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

#endif
