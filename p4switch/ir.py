"""The typed intermediate representation: the contract between the front end and the C emitter.

The front end has resolved every name, checked every type, folded every constant and inlined every sub-parser,
sub-control, function and direct action call. What is left is one parser and five control blocks of a v1model
program, plus the objects they use. The emitter infers nothing: every expression carries its type.

Conventions
* Names are unique within the program and are valid C identifiers once '.' is replaced; objects that the control
  plane sees also carry their fully qualified P4 name and their P4Info id.
* Block parameters have fixed root names in every block: ``hdr``, ``meta``, ``standard_metadata`` (Var nodes).
* Evaluation order is explicit: the front end hoists every call with a side effect into a statement before its use.
* int<W> values are two's complement; a Const holds the value already wrapped to an unsigned W-bit pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

# The fields of standard_metadata_t that the runtime has (struct p4_std), and how many others a program may add.
STANDARD_METADATA_FIELDS = (
    *("ingress_port", "egress_spec", "egress_port", "instance_type", "packet_length", "enq_timestamp", "enq_qdepth"),
    *("deq_timedelta", "deq_qdepth", "ingress_global_timestamp", "egress_global_timestamp", "mcast_grp"),
    *("egress_rid", "checksum_error", "parser_error", "priority", "qid"),
)
MORE_STANDARD_METADATA_FIELDS = 8


@dataclass(frozen=True)
class Loc:
    """Where something stands in the source: file, 1-based line and column."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


# ------------------------------------------------------------------------------------------------------------ types


@dataclass(frozen=True)
class Type:
    """Base of all types."""


@dataclass(frozen=True)
class Bits(Type):
    """bit<width>, or int<width> when signed. Serializable enums and `type` aliases are lowered to this."""

    width: int
    signed: bool = False


@dataclass(frozen=True)
class Varbits(Type):
    """varbit<max_width>: a bit string with a dynamic length of at most max_width bits."""

    max_width: int


@dataclass(frozen=True)
class Bool(Type):
    pass


@dataclass(frozen=True)
class ErrorType(Type):
    """A value is an index into Program.errors."""


@dataclass(frozen=True)
class EnumType(Type):
    """An enum without representation; a value is an index into members."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class HeaderType(Type):
    """A header: its fields in wire order, plus a validity bit that is no field."""

    name: str
    fields: tuple[tuple[str, Type], ...]  # Bits, Bool (1 bit), structs and arrays of them, Varbits


@dataclass(frozen=True)
class StructType(Type):
    name: str
    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class StackType(Type):
    """An array. One of headers is a header stack, with an implicit next index that Extract to StackNext, push_front and
    pop_front keep."""

    element: Type
    size: int


# ------------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True)
class Expr:
    type: Type


@dataclass(frozen=True)
class Const(Expr):
    """An integer pattern: of Bits (0 <= value < 2**width), Bool (0, 1), ErrorType or EnumType (index)."""

    value: int


@dataclass(frozen=True)
class Var(Expr):
    """A local of the block, an action parameter, or one of the roots hdr, meta, standard_metadata."""

    name: str


@dataclass(frozen=True)
class Field(Expr):
    base: Expr  # of StructType or HeaderType
    name: str


@dataclass(frozen=True)
class Index(Expr):
    """array[index]. Out of range: reads give zero or an invalid header, writes are ignored (BMv2 aborts)."""

    base: Expr
    index: Expr


@dataclass(frozen=True)
class StackNext(Expr):
    """stack.next (parser only). Past the end: error.StackOutOfBounds, reject."""

    base: Expr


@dataclass(frozen=True)
class StackLast(Expr):
    """stack.last (parser only). On an empty stack: error.StackOutOfBounds, reject."""

    base: Expr


@dataclass(frozen=True)
class StackLastIndex(Expr):
    """stack.lastIndex, of type bit<32>."""

    base: Expr


@dataclass(frozen=True)
class IsValid(Expr):
    """header.isValid(), of type Bool."""

    base: Expr


@dataclass(frozen=True)
class Slice(Expr):
    base: Expr
    hi: int
    lo: int


@dataclass(frozen=True)
class Unary(Expr):
    op: str  # '-', '~', '!'
    operand: Expr


@dataclass(frozen=True)
class Binary(Expr):
    """Operands of arithmetic, bitwise and comparison operators have equal types; '<<' and '>>' take any Bits on the
    right; '++' concatenates; '&&' and '||' short-circuit; '==' and '!=' also compare Bool, enums and errors.
    Comparison of headers and structs is lowered to comparison of their fields. Division and modulo by zero yield 0."""

    op: str  # + - * / % & | ^ << >> |+| |-| == != < <= > >= && || ++
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Mux(Expr):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True)
class Cast(Expr):
    """Bits to Bits (truncate; zero- or sign-extend by the operand's signedness), Bool to Bits(1) and back."""

    operand: Expr


@dataclass(frozen=True)
class PacketLength(Expr):
    """packet_in.length(), bit<32>, bytes."""


# ------------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Stmt:
    loc: Loc


@dataclass(frozen=True)
class Assign(Stmt):
    """target = value; both of the same type, which may be a header (copies validity), struct or stack. A target is
    Var, Field, Index, StackLast or Slice of those."""

    target: Expr
    value: Expr


@dataclass(frozen=True)
class If(Stmt):
    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class SwitchCase:
    values: tuple[int, ...] | None  # None: default
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Switch(Stmt):
    """Over constants of subject's type; fall-through labels are merged; a body never falls through. For action_run
    the subject is the Var of type bit<32> that ApplyTable filled, the values are indices into Table.actions."""

    subject: Expr
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True)
class ApplyTable(Stmt):
    """Evaluate the keys, look up, run the action. hit: Var of Bool; action: Var of bit<32>, index in Table.actions.

    on_exit: what is to be done before the block is left when the action exits, and is not in the action, as it depends
    on where the table is applied: copies of the parameters of the controls around it."""

    table: str
    hit: Var | None = None
    action: Var | None = None
    on_exit: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class SetValid(Stmt):
    header: Expr
    valid: bool


@dataclass(frozen=True)
class PushFront(Stmt):
    stack: Expr
    count: int


@dataclass(frozen=True)
class PopFront(Stmt):
    stack: Expr
    count: int


@dataclass(frozen=True)
class Scope(Stmt):
    """A body that Leave(label) leaves at its end: inlined returns."""

    label: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Leave(Stmt):
    label: str


@dataclass(frozen=True)
class Loop(Stmt):
    """Repeat body until a Leave(label) inside it; 'continue' has been made a Leave of a Scope inside."""

    label: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Exit(Stmt):
    """Leave the whole block; copy-out of inlined calls has been made explicit before it."""


@dataclass(frozen=True)
class Called(Stmt):
    """Here begins what an inlined call does: 'action' or 'control', its name, its scalar arguments. For traces only."""

    kind: str
    name: str
    args: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class FieldList:
    """An argument that is a list or struct expression, flattened to its scalar leaves (Bits, Bool, Varbits, enums);
    a header in the list contributes its fields."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Text:
    """A string literal argument (log_msg)."""

    value: str


@dataclass(frozen=True)
class ExternCall(Stmt):
    """A call of a v1model extern function or method.

    function: 'register.read', 'register.write', 'counter.count', 'direct_counter.count', 'meter.execute_meter',
    'direct_meter.read', 'hash', 'random', 'mark_to_drop', 'clone', 'clone_preserving_field_list',
    'resubmit_preserving_field_list', 'recirculate_preserving_field_list', 'digest', 'truncate', 'log_msg', 'assert',
    'assume', 'verify_checksum', 'verify_checksum_with_payload', 'update_checksum', 'update_checksum_with_payload'.
    instance: the IR name of the register, counter, meter or digest; None for plain functions.
    args: all arguments in source order, out arguments being assignable expressions; enum arguments (CloneType,
    HashAlgorithm) are Const of EnumType.
    """

    function: str
    instance: str | None
    args: tuple[Expr | FieldList | Text, ...]


# Parser-only statements. Each may set parser_error and go to reject.
@dataclass(frozen=True)
class Extract(Stmt):
    """packet.extract(header) or extract(header, varbit_size_in_bits). Too short: error.PacketTooShort, reject."""

    header: Expr  # may be StackNext
    varbit_bits: Expr | None = None


@dataclass(frozen=True)
class Advance(Stmt):
    bits: Expr


@dataclass(frozen=True)
class Lookahead(Stmt):
    """target = packet.lookahead<T>(), T = target.type (Bits, HeaderType or StructType)."""

    target: Expr


@dataclass(frozen=True)
class Verify(Stmt):
    condition: Expr
    error: Expr  # of ErrorType


# Deparser only.
@dataclass(frozen=True)
class Emit(Stmt):
    """packet.emit(header): nothing when invalid. Structs and stacks are expanded by the front end."""

    header: Expr


# ---------------------------------------------------------------------------------------------------------- parsers


@dataclass(frozen=True)
class Keyset:
    """One component of a select case. value & mask for 'mask'; lo..hi for 'range'; 'any' is _ or default."""

    kind: str  # 'value', 'mask', 'range', 'any', 'value_set'
    lo: int = 0  # value, or lo
    hi: int = 0  # mask, or hi
    value_set: str = ""


@dataclass(frozen=True)
class SelectCase:
    keysets: tuple[Keyset, ...]  # one per subject; a single 'any' may stand for all
    target: str


@dataclass(frozen=True)
class Transition:
    """subjects empty: go to cases[0].target. No case matches: error.NoMatch, reject.
    Targets are state names, 'accept' or 'reject'. First match wins."""

    subjects: tuple[Expr, ...]
    cases: tuple[SelectCase, ...]


@dataclass(frozen=True)
class State:
    name: str
    body: tuple[Stmt, ...]
    transition: Transition


# ------------------------------------------------------------------------------------------- control-plane objects


@dataclass(frozen=True)
class StructuredAnnotation:
    """@name[a, b] or @name[k=v, ...]; values are int, bool or str."""

    name: str
    items: tuple[int | bool | str, ...] = ()
    pairs: tuple[tuple[str, int | bool | str], ...] = ()


@dataclass(frozen=True)
class Notes:
    """Annotations for P4Info: texts as in the source ('@tag("x")') without those that P4Info shows otherwise."""

    texts: tuple[str, ...] = ()
    structured: tuple[StructuredAnnotation, ...] = ()
    brief: str = ""
    description: str = ""


@dataclass(frozen=True)
class Identity:
    """What P4Info says of an object: fully qualified name, id, alias, annotations. hidden: kept out of P4Info."""

    name: str
    id: int
    alias: str
    notes: Notes = Notes()
    hidden: bool = False


@dataclass(frozen=True)
class TypeSpec:
    """A type for P4Info's type_spec. kind: 'bit', 'int', 'varbit' (size: width), 'bool', 'error', 'tuple' (members),
    'struct', 'header', 'header_union', 'enum', 'serializable_enum', 'new_type' (name), 'header_stack',
    'header_union_stack' (name, size)."""

    kind: str
    size: int = 0
    name: str = ""
    members: tuple[TypeSpec, ...] = ()


@dataclass(frozen=True)
class NamedType:
    """A named type that P4Info's type_info describes. kind as in TypeSpec; members of structs, headers and unions in
    order; enums have names only, serializable ones values and a width; a new_type has an original type, and where it
    has a @p4runtime_translation a uri and the width that the controller sees (0: a string)."""

    kind: str
    name: str
    members: tuple[tuple[str, TypeSpec], ...] = ()
    values: tuple[tuple[str, int], ...] = ()
    width: int = 0
    original: TypeSpec | None = None
    translated: bool = False
    uri: str = ""
    notes: Notes = Notes()


class MatchKind(StrEnum):
    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"
    SELECTOR = "selector"


@dataclass(frozen=True)
class Param:
    """An action-data parameter; id is P4Info's (1, 2, ...). variable: what the body calls it, whatever its @name."""

    name: str
    variable: str
    type: Bits  # Bool parameters are lowered to Bits(1)
    id: int
    notes: Notes = Notes()
    type_name: str = ""  # of a distinct type


@dataclass(frozen=True)
class Local:
    name: str
    type: Type  # zero, or invalid, at the start of the block or action


@dataclass(frozen=True)
class Action:
    """An action as tables run it. Params are the control plane's only: directional parameters have been bound and
    substituted (one Action per binding). In the body a param is a Var of its type. Leave/Scope handle return.
    locals are the action's own: they live for one run of it, and no other code uses them."""

    ir_name: str
    identity: Identity
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    block: str  # 'ingress', 'egress', 'verify', 'compute'; whose locals the body may use; '' for top-level actions
    locals: tuple[Local, ...] = ()


@dataclass(frozen=True)
class ActionInfo:
    """An action as P4Info lists it, also one that is only called directly and exists inlined alone."""

    identity: Identity
    params: tuple[Param, ...]


@dataclass(frozen=True)
class Key:
    expr: Expr  # evaluated before the lookup
    match: MatchKind
    name: str  # control-plane name
    id: int  # 1, 2, ... without selector keys
    width: int  # bits (Bool: 1; enums and errors: 32, as an index)
    notes: Notes = Notes()
    type_name: str = ""  # of a distinct type


@dataclass(frozen=True)
class TableAction:
    action: str  # Action.ir_name
    table_only: bool = False  # @tableonly
    default_only: bool = False  # @defaultonly
    notes: Notes = Notes()


@dataclass(frozen=True)
class KeyMatch:
    """One component of a constant entry: exact/optional value; lpm value/prefix; ternary value/mask; range lo/hi.
    wildcard: ternary mask 0, lpm prefix 0, full range, optional absent."""

    value: int = 0
    mask_or_hi: int = 0  # mask (ternary), hi (range)
    prefix: int = 0  # lpm
    wildcard: bool = False


@dataclass(frozen=True)
class ConstEntry:
    matches: tuple[KeyMatch, ...]
    action: str
    args: tuple[int, ...]
    priority: int  # P4Runtime sense, larger wins; 0 for tables without ternary, range, optional keys
    is_const: bool = True  # false: the control plane may change or delete it


@dataclass(frozen=True)
class Table:
    ir_name: str
    identity: Identity
    block: str
    keys: tuple[Key, ...]
    actions: tuple[TableAction, ...]
    default_action: str
    default_args: tuple[int, ...]
    const_default: bool
    size: int
    const_entries: tuple[ConstEntry, ...] = ()
    entries_are_const: bool = False
    direct_counter: str | None = None
    direct_meter: str | None = None
    meter_target: Expr | None = None  # the field that direct_meter.read names
    implementation: str | None = None  # action profile or selector
    support_timeout: bool = False


@dataclass(frozen=True)
class Register:
    """in_p4info: whether the control plane knows of it."""

    ir_name: str
    identity: Identity
    element: Bits
    size: int
    type_spec: TypeSpec | None = None
    index_type_name: str = ""
    in_p4info: bool = True


@dataclass(frozen=True)
class Counter:
    """unit: 'packets', 'bytes', 'packets_and_bytes'. table: the owner of a direct counter, by ir_name."""

    ir_name: str
    identity: Identity
    unit: str
    size: int = 0
    table: str | None = None
    index_type_name: str = ""


@dataclass(frozen=True)
class Meter:
    ir_name: str
    identity: Identity
    unit: str  # 'packets', 'bytes'
    size: int = 0
    table: str | None = None
    index_type_name: str = ""


@dataclass(frozen=True)
class ActionProfile:
    ir_name: str
    identity: Identity
    size: int
    selector: bool
    hash_algorithm: str = ""
    hash_width: int = 0
    max_group_size: int = 0
    size_semantics: str = ""  # @selector_size_semantics: 'sum_of_weights', 'sum_of_members' or not said
    max_member_weight: int = 0  # of sum_of_members; 0: no limit


@dataclass(frozen=True)
class Digest:
    ir_name: str
    identity: Identity
    fields: tuple[tuple[str, Type], ...]  # scalar leaves in order, dotted names
    type_name: str
    type_spec: TypeSpec | None = None


@dataclass(frozen=True)
class ValueSet:
    ir_name: str
    identity: Identity
    widths: tuple[int, ...]
    size: int
    matches: tuple[MatchKind, ...] = ()
    names: tuple[str, ...] = ()  # of a struct's fields


@dataclass(frozen=True)
class ControllerField:
    """A field of a controller header. hidden: in the packet, but not in P4Info."""

    name: str
    width: int
    id: int
    notes: Notes = Notes()
    type_name: str = ""
    hidden: bool = False


@dataclass(frozen=True)
class ControllerHeader:
    """A header type with @controller_header("packet_in" or "packet_out")."""

    name: str  # of the header type
    identity: Identity  # of the header type
    controller_name: str  # "packet_in" or "packet_out"
    fields: tuple[ControllerField, ...]  # in order


# ---------------------------------------------------------------------------------------------------------- program


@dataclass(frozen=True)
class ParserBlock:
    name: str
    locals: tuple[Local, ...]
    states: tuple[State, ...]  # the first one is 'start'


@dataclass(frozen=True)
class ControlBlock:
    name: str
    locals: tuple[Local, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Program:
    """A whole v1model program. errors: NoError first, then the others in declaration order.

    field_lists: @field_list id -> the meta/standard_metadata fields (Field paths) that clones and the like preserve.
    """

    source: str
    headers: StructType  # type of hdr
    meta: StructType  # type of meta
    standard_metadata: StructType
    errors: tuple[str, ...]
    parser: ParserBlock
    verify: ControlBlock
    ingress: ControlBlock
    egress: ControlBlock
    compute: ControlBlock
    deparser: ControlBlock
    actions: tuple[Action, ...] = ()
    tables: tuple[Table, ...] = ()
    registers: tuple[Register, ...] = ()
    counters: tuple[Counter, ...] = ()  # indirect and direct
    meters: tuple[Meter, ...] = ()  # indirect and direct
    action_profiles: tuple[ActionProfile, ...] = ()
    digests: tuple[Digest, ...] = ()
    value_sets: tuple[ValueSet, ...] = ()
    controller_headers: tuple[ControllerHeader, ...] = ()
    field_lists: dict[int, tuple[Expr, ...]] = field(default_factory=dict)
    package: dict[str, str] = field(
        default_factory=dict
    )  # @pkginfo: 'name', 'version', 'organization', 'contact', 'url', 'arch'
    platform_properties: dict[str, int] = field(default_factory=dict)  # @platform_property
    package_notes: Notes = Notes()
    action_infos: tuple[ActionInfo, ...] = ()  # P4Info's actions, in its order; `actions` are those that tables run
    named_types: tuple[NamedType, ...] = ()
    warnings: tuple[str, ...] = ()  # as text for people, with their places
    has_type_info: bool = False  # whether p4c would write type_info, be it empty
    files: tuple[str, ...] = ()  # every source file that was read, for caches
