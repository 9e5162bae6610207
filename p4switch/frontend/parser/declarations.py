"""Declarations: types, externs, parsers, controls, tables, packages."""

from __future__ import annotations

from p4switch.frontend import ast
from p4switch.frontend.errors import Failure, did_you_mean
from p4switch.frontend.parser.statements import StatementParser
from p4switch.ir import Loc

_TOP_LEVEL = (
    "const",
    "extern",
    "action",
    "parser",
    "control",
    "package",
    "header",
    "struct",
    "header_union",
    "enum",
    "error",
    "match_kind",
    "typedef",
    "type",
)


class DeclarationParser(StatementParser):
    """Parses whole programs."""

    def program(self) -> ast.Program:
        declarations: list[ast.Decl] = []
        while self.kind != "EOF":
            if self.accept(";"):
                continue
            start, depth = self.index, self.depth
            try:
                declarations.append(self.declaration())
            except Failure as failure:
                self.errors.add(failure.diagnostic)
                self.depth = depth
                del self.scopes[1:]
                self.skip_declaration(start)
        return ast.Program(tuple(declarations))

    def skip_declaration(self, start: int) -> None:
        """Go on at the next keyword that begins a declaration outside of all braces."""
        self.seek(start)
        self.advance()
        nesting = 0
        while self.kind != "EOF":
            if self.kind == "{":
                nesting += 1
            elif self.kind == "}":
                nesting -= 1
                if nesting <= 0:
                    self.advance()
                    return
            elif nesting <= 0 and self.kind == ";":
                self.advance()
                return
            self.advance()

    def declaration(self) -> ast.Decl:
        annotations = self.annotations()
        kind = self.kind
        if kind == "const":
            return self.constant(annotations)
        if kind == "extern":
            return self.extern(annotations)
        if kind == "action":
            return self.action(annotations)
        if kind == "parser":
            return self.parser_declaration(annotations)
        if kind == "control":
            return self.control(annotations)
        if kind == "package":
            return self.package(annotations)
        if kind in ("header", "struct", "header_union"):
            return self.struct(annotations)
        if kind == "enum":
            return self.enum(annotations)
        if kind == "error" and self.peek() == "{":
            loc = self.loc()
            self.advance()
            return ast.ErrorDecl(loc, "error", annotations, self.identifiers("an error's name"))
        if kind == "match_kind" and self.peek() == "{":
            loc = self.loc()
            self.advance()
            return ast.MatchKindDecl(loc, "match_kind", annotations, self.identifiers("a match kind"))
        if kind == "typedef" or (kind == "type" and self.peek() not in ("(", "<")):
            return self.typedef(annotations)
        if self.at_type() or kind == "void" or (kind == "ID" and self.peek() in ("ID", "<")):
            return self.function_or_instantiation(annotations)
        if kind == "ID":
            text = self.texts[self.index]
            if self.peek() == "(":
                raise Failure(self.loc(), f"unknown type '{text}'", self.type_hint(text))
            self.unexpected("expected a declaration", did_you_mean(text, _TOP_LEVEL, "declarations begin with"))
        if kind == "table":
            raise Failure(
                self.loc(), "table outside of a control", "declare it inside a control, before its apply block"
            )
        self.unexpected("expected a declaration")

    # ------------------------------------------------------------------------------------------------------- types

    def struct(self, annotations: tuple[ast.Annotation, ...]) -> ast.StructDecl:
        kind = self.advance()
        name, loc = self.name(f"a {kind}'s name")
        self.declare(name, "type")
        self.scopes.append({})
        type_params = self.type_params()
        self.expect("{", f"the {kind}'s name")
        fields: list[ast.FieldDecl] = []
        while self.kind not in ("}", "EOF"):
            field_annotations = self.annotations()
            type_ref = self.type_ref("a field's type")
            field_name, field_loc = self.name("a field name")
            type_ref = self.array_of(type_ref)
            self.expect(";", f"field '{field_name}'")
            fields.append(ast.FieldDecl(field_loc, field_name, field_annotations, type_ref))
        self.expect("}", "the fields")
        self.scopes.pop()
        return ast.StructDecl(loc, name, annotations, kind, type_params, tuple(fields))

    def enum(self, annotations: tuple[ast.Annotation, ...]) -> ast.EnumDecl:
        self.advance()
        type_ref = None
        if self.at_type() and not (self.kind == "ID" and self.peek() == "{"):
            type_ref = self.type_ref()
        name, loc = self.name("an enum's name")
        self.declare(name, "type")
        members = self.identifiers("an enum member", type_ref is not None)
        return ast.EnumDecl(loc, name, annotations, type_ref, members)

    def identifiers(self, what: str, with_values: bool = False) -> tuple[ast.EnumMember, ...]:
        self.expect("{", "the name")
        members: list[ast.EnumMember] = []
        while self.kind not in ("}", "EOF"):
            annotations = self.annotations()
            name, loc = self.name(what)
            value = None
            if with_values:
                self.expect("=", f"member '{name}' of an enum with a type")
                value = self.expression()
            members.append(ast.EnumMember(loc, name, value, annotations))
            if not self.accept(","):
                break
        self.expect("}", "the members")
        return tuple(members)

    def typedef(self, annotations: tuple[ast.Annotation, ...]) -> ast.TypedefDecl:
        distinct = self.advance() == "type"
        target: ast.TypeRef | ast.Decl
        if self.kind in ("header", "struct", "header_union"):
            target = self.struct(())
        elif self.kind == "enum":
            target = self.enum(())
        else:
            target = self.type_ref()
        name, loc = self.name("a type's name")
        if isinstance(target, ast.TypeRef):
            target = self.array_of(target)
        self.declare(name, "type")
        self.expect(";", f"the definition of type '{name}'")
        return ast.TypedefDecl(loc, name, annotations, target, distinct)

    def type_params(self) -> tuple[str, ...]:
        names: list[str] = []
        if self.accept("<"):
            while self.kind != ">":
                name, _ = self.name("a type parameter")
                names.append(name)
                if not self.accept(","):
                    break
            self.close_angle("the type parameters")
        self.declare_types(tuple(names))
        return tuple(names)

    def parameters(self, what: str) -> tuple[ast.Parameter, ...]:
        self.expect("(", what)
        params: list[ast.Parameter] = []
        while self.kind != ")":
            annotations = self.annotations()
            direction = self.advance() if self.kind in ("in", "out", "inout") else ""
            type_ref = self.type_ref("a parameter's type")
            name, loc = self.name("a parameter's name")
            type_ref = self.array_of(type_ref)
            default = self.expression() if self.accept("=") else None
            params.append(ast.Parameter(loc, name, annotations, direction, type_ref, default))
            self.declare(name, "value")
            if not self.accept(","):
                break
        self.expect(")", "the parameters")
        return tuple(params)

    # --------------------------------------------------------------------------------------- functions and externs

    def function_or_instantiation(self, annotations: tuple[ast.Annotation, ...]) -> ast.Decl:
        type_ref = self.type_ref()
        if self.kind == "(":
            statement = self.instantiation(annotations, type_ref)
            if not isinstance(statement, ast.Instantiation):
                raise Failure(statement.loc, "call outside of a parser or control")
            return statement
        name, loc = self.name("a name")
        if self.kind in ("=", ";"):
            raise Failure(
                loc, f"variable '{name}' outside of a parser, control or function", "constants are declared with const"
            )
        self.declare(name, "value")
        return self.function(loc, name, annotations, type_ref, True)

    def function(
        self,
        loc: Loc,
        name: str,
        annotations: tuple[ast.Annotation, ...],
        return_type: ast.TypeRef,
        with_body: bool,
        abstract: bool = False,
    ) -> ast.FunctionDecl:
        """Type parameters, parameters, and a body or ';'."""
        self.scopes.append({})
        type_params = self.type_params()
        params = self.parameters(f"the function's name '{name}'")
        body = None
        if with_body:
            body = self.block()
        else:
            self.expect(";", f"the declaration of '{name}'")
        self.scopes.pop()
        return ast.FunctionDecl(loc, name, annotations, type_params, return_type, params, body, abstract)

    def extern(self, annotations: tuple[ast.Annotation, ...]) -> ast.Decl:
        self.advance()
        if self.at_name() and self.peek() in ("{", "<", ";") and not (self.at_type() and self.peek() == "<"):
            start = self.index
            name, loc = self.name("an extern's name")
            if self.accept(";"):
                self.declare(name, "type")
                return ast.ExternDecl(loc, name, annotations, (), ())
            self.scopes[-1][name] = "type"
            self.scopes.append({})
            type_params = self.type_params()
            if self.kind == "{":
                return self.extern_object(loc, name, annotations, type_params)
            self.scopes.pop()
            self.scopes[-1].pop(name, None)
            self.seek(start)
        return_type = self.type_ref("a return type")
        name, loc = self.name("a function's name")
        self.declare(name, "value")
        return self.function(loc, name, annotations, return_type, False)

    def extern_object(
        self, loc: Loc, name: str, annotations: tuple[ast.Annotation, ...], type_params: tuple[str, ...]
    ) -> ast.ExternDecl:
        self.expect("{", f"extern '{name}'")
        methods: list[ast.FunctionDecl] = []
        while self.kind not in ("}", "EOF"):
            method_annotations = self.annotations()
            abstract = self.accept("abstract")
            if self.kind == "ID" and self.texts[self.index] == name and self.peek() == "(":
                _, method_loc = self.name("the constructor")
                self.scopes.append({})
                params = self.parameters("the constructor")
                self.expect(";", "the constructor")
                self.scopes.pop()
                methods.append(ast.FunctionDecl(method_loc, name, method_annotations, (), None, params, None))
                continue
            return_type = self.type_ref("a return type")
            method, method_loc = self.name("a method's name")
            methods.append(self.function(method_loc, method, method_annotations, return_type, False, abstract))
        self.expect("}", "the methods")
        self.scopes.pop()
        return ast.ExternDecl(loc, name, annotations, type_params, tuple(methods))

    def object_initializer(self) -> tuple[ast.Decl, ...]:
        self.expect("{", "'='")
        found: list[ast.Decl] = []
        while self.kind not in ("}", "EOF"):
            found.append(self.function_or_instantiation(self.annotations()))
        self.expect("}", "the initializer")
        return tuple(found)

    def action(self, annotations: tuple[ast.Annotation, ...]) -> ast.ActionDecl:
        self.advance()
        name, loc = self.name("an action's name")
        self.declare(name, "value")
        self.scopes.append({})
        params = self.parameters(f"the action's name '{name}'")
        body = self.block()
        self.scopes.pop()
        return ast.ActionDecl(loc, name, annotations, params, body)

    # ---------------------------------------------------------------------------------------- parsers and controls

    def parser_declaration(self, annotations: tuple[ast.Annotation, ...]) -> ast.ParserDecl:
        self.advance()
        name, loc = self.name("a parser's name")
        self.declare(name, "type")
        self.scopes.append({})
        type_params = self.type_params()
        params = self.parameters(f"the parser's name '{name}'")
        if self.accept(";"):
            self.scopes.pop()
            return ast.ParserDecl(loc, name, annotations, type_params, params, (), (), None)
        ctor_params = self.parameters("the parser's parameters") if self.kind == "(" else ()
        self.expect("{", "the parser's head")
        outer, self.applied = self.applied, []
        locals_: list[ast.Decl] = []
        states: list[ast.StateDecl] = []
        while self.kind not in ("}", "EOF"):
            item_annotations = self.annotations()
            if self.kind == "state":
                states.append(self.state(item_annotations))
            else:
                locals_.append(self.local(item_annotations, "parser"))
        if self.kind != "}":
            raise Failure(loc, f"parser '{name}' is not closed", "add '}'")
        self.advance()
        self.scopes.pop()
        applied, self.applied = tuple(self.applied), outer
        return ast.ParserDecl(
            loc, name, annotations, type_params, params, ctor_params, tuple(locals_), tuple(states), applied
        )

    def local(self, annotations: tuple[ast.Annotation, ...], where: str) -> ast.Decl:
        if self.kind == "const":
            return self.constant(annotations)
        if self.kind == "value_set":
            return self.value_set(annotations)
        if self.kind == "action":
            return self.action(annotations)
        if self.kind == "table":
            return self.table(annotations)
        if not self.at_type():
            text = self.texts[self.index]
            if self.kind == "ID" and self.peek() in ("ID", "(", "<"):
                raise Failure(self.loc(), f"unknown type '{text}'", self.type_hint(text))
            expected = (
                "states, constants, variables, instances and value sets"
                if where == "parser"
                else "actions, tables, constants, variables, instances and then apply { ... }"
            )
            self.unexpected(f"expected a declaration inside the {where}", f"a {where} has {expected}")
        found = self.typed_declaration(annotations)
        if not isinstance(found, ast.Decl):
            raise Failure(
                found.loc, f"statement outside of the {where}'s {'states' if where == 'parser' else 'apply block'}"
            )
        return found

    def value_set(self, annotations: tuple[ast.Annotation, ...]) -> ast.ValueSetDecl:
        self.advance()
        args = self.type_args()
        if len(args) != 1:
            self.unexpected("value_set<> takes one type")
        self.expect("(", "the value set's type")
        size = self.expression()
        self.expect(")", "the value set's size")
        name, loc = self.name("a value set's name")
        self.expect(";", f"value set '{name}'")
        self.declare(name, "value")
        return ast.ValueSetDecl(loc, name, annotations, args[0], size)

    def state(self, annotations: tuple[ast.Annotation, ...]) -> ast.StateDecl:
        self.advance()
        name, loc = self.name("a state's name")
        self.expect("{", f"state '{name}'")
        self.scopes.append({})
        body = self.statements()
        transition = self.transition() if self.kind == "transition" else None
        self.scopes.pop()
        if self.kind != "}":
            self.unexpected(f"expected '}}' at the end of state '{name}'", "the transition is a state's last statement")
        self.advance()
        return ast.StateDecl(loc, name, annotations, body, transition)

    def transition(self) -> ast.TransitionStmt:
        loc = self.loc()
        self.advance()
        if self.kind != "select":
            target, target_loc = self.name("a state's name or 'select'")
            self.expect(";", "the transition")
            return ast.TransitionStmt(target_loc, target)
        self.advance()
        self.expect("(", "'select'")
        subjects: list[ast.Expr] = []
        while self.kind != ")":
            subjects.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")", "the select's subjects")
        self.expect("{", "the select's head")
        cases: list[ast.SelectCase] = []
        while self.kind not in ("}", "EOF"):
            case_loc = self.loc()
            keysets = self.keyset()
            self.expect(":", "the select case's keyset")
            target, target_loc = self.name("a state's name")
            self.expect(";", "the select case")
            cases.append(ast.SelectCase(target_loc if not keysets else case_loc, keysets, target))
        self.expect("}", "the select cases")
        self.accept(";")
        return ast.TransitionStmt(loc, None, tuple(subjects), tuple(cases))

    def control(self, annotations: tuple[ast.Annotation, ...]) -> ast.ControlDecl:
        self.advance()
        name, loc = self.name("a control's name")
        self.declare(name, "type")
        self.scopes.append({})
        type_params = self.type_params()
        params = self.parameters(f"the control's name '{name}'")
        if self.accept(";"):
            self.scopes.pop()
            return ast.ControlDecl(loc, name, annotations, type_params, params, (), (), None)
        ctor_params = self.parameters("the control's parameters") if self.kind == "(" else ()
        self.expect("{", "the control's head")
        outer, self.applied = self.applied, []
        locals_: list[ast.Decl] = []
        while self.kind not in ("apply", "}", "EOF"):
            locals_.append(self.local(self.annotations(), "control"))
        if self.kind != "apply":
            raise Failure(loc, f"control '{name}' has no apply block", "add apply { ... } at its end")
        self.advance()
        body = self.block()
        if self.kind != "}":
            self.unexpected(f"expected '}}' after the apply block of control '{name}'", "the apply block comes last")
        self.advance()
        self.scopes.pop()
        applied, self.applied = tuple(self.applied), outer
        return ast.ControlDecl(loc, name, annotations, type_params, params, ctor_params, tuple(locals_), body, applied)

    def package(self, annotations: tuple[ast.Annotation, ...]) -> ast.PackageDecl:
        self.advance()
        name, loc = self.name("a package's name")
        self.declare(name, "type")
        self.scopes.append({})
        type_params = self.type_params()
        params = self.parameters("the package's name")
        self.expect(";", f"package '{name}'")
        self.scopes.pop()
        return ast.PackageDecl(loc, name, annotations, type_params, params)

    # ------------------------------------------------------------------------------------------------------ tables

    def table(self, annotations: tuple[ast.Annotation, ...]) -> ast.TableDecl:
        self.advance()
        name, loc = self.name("a table's name")
        self.expect("{", f"the table's name '{name}'")
        keys: list[ast.KeyElement] = []
        actions: list[ast.ActionRef] = []
        entries: list[ast.Entry] | None = None
        entries_const = has_key = has_actions = False
        properties: list[ast.Property] = []
        while self.kind not in ("}", "EOF"):
            property_annotations = self.annotations()
            is_const = self.accept("const")
            kind = self.kind
            property_loc = self.loc()
            if not self.at_name() and kind not in ("key", "actions", "entries"):
                self.unexpected(
                    "expected a table property", "properties: key, actions, default_action, size, entries, ..."
                )
            property_name = self.advance()
            self.expect("=", f"the property's name '{property_name}'")
            if kind == "key":
                if has_key:
                    raise Failure(property_loc, f"table '{name}' has two keys", "list all fields in one")
                has_key = True
                keys = self.key_elements()
            elif kind == "actions":
                if has_actions:
                    raise Failure(property_loc, f"table '{name}' has two lists of actions")
                has_actions = True
                actions = self.action_list()
            elif kind == "entries":
                if not has_key:
                    hint = "put key = { ... } in front of them"
                    raise Failure(property_loc, f"entries of table '{name}' stand before its key", hint)
                entries_const = is_const
                entries = self.entry_list()
            else:
                value = self.expression()
                self.expect(";", f"property '{property_name}'")
                properties.append(ast.Property(property_loc, property_name, is_const, value, property_annotations))
        self.expect("}", "the table's properties")
        self.declare(name, "value")
        return ast.TableDecl(
            loc,
            name,
            annotations,
            tuple(keys),
            has_key,
            tuple(actions),
            has_actions,
            None if entries is None else tuple(entries),
            entries_const,
            tuple(properties),
        )

    def key_elements(self) -> list[ast.KeyElement]:
        self.expect("{", "'key ='")
        keys = []
        while self.kind not in ("}", "EOF"):
            loc = self.loc()
            expr = self.expression()
            self.expect(":", "the key expression")
            kind, kind_loc = self.name("a match kind")
            annotations = self.annotations()
            self.expect(";", f"the match kind '{kind}'")
            keys.append(ast.KeyElement(kind_loc if loc is None else loc, expr, kind, annotations))
        self.expect("}", "the key's elements")
        self.accept(";")
        return keys

    def action_list(self) -> list[ast.ActionRef]:
        self.expect("{", "'actions ='")
        actions = []
        while self.kind not in ("}", "EOF"):
            annotations = self.annotations()
            actions.append(self.action_ref(annotations))
            self.expect(";", "the action")
        self.expect("}", "the actions")
        self.accept(";")
        return actions

    def action_ref(self, annotations: tuple[ast.Annotation, ...] = ()) -> ast.ActionRef:
        absolute = self.accept(".")
        name, loc = self.name("an action's name")
        args = self.arguments() if self.kind == "(" else None
        return ast.ActionRef(loc, name, absolute, args, annotations)

    def entry_list(self) -> list[ast.Entry]:
        self.expect("{", "'entries ='")
        entries = []
        while self.kind not in ("}", "EOF"):
            loc = self.loc()
            is_const = self.accept("const")
            priority = None
            if self.kind == "priority" and self.peek() == "=":
                self.advance()
                self.advance()
                if self.accept("("):
                    priority = self.expression()
                    self.expect(")", "the priority")
                else:
                    priority = self.primary()
                self.expect(":", "the priority")
            keysets = self.keyset()
            self.expect(":", "the entry's key")
            action = self.action_ref()
            annotations = self.annotations()
            self.expect(";", "the entry")
            entries.append(ast.Entry(loc, is_const, priority, keysets, action, annotations))
        self.expect("}", "the entries")
        self.accept(";")
        return entries
