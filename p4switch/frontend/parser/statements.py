"""Statements, and the declarations that may stand among them."""

from __future__ import annotations

from p4switch.frontend import ast
from p4switch.frontend.errors import Failure
from p4switch.frontend.parser.expressions import ExpressionParser

_ASSIGNMENTS = {
    "=": "",
    "+=": "+",
    "-=": "-",
    "*=": "*",
    "/=": "/",
    "%=": "%",
    "&=": "&",
    "|=": "|",
    "^=": "^",
    "<<=": "<<",
    "|+|=": "|+|",
    "|-|=": "|-|",
}


class StatementParser(ExpressionParser):
    """Parses statements of all places alike; the elaborator knows what may stand where."""

    def block(self, annotations: tuple[ast.Annotation, ...] = ()) -> ast.BlockStmt:
        loc = self.loc()
        self.expect("{", "the declaration")
        self.scopes.append({})
        body = self.statements()
        self.scopes.pop()
        if self.kind != "}":
            raise Failure(loc, "block is not closed", "add '}'")
        self.advance()
        return ast.BlockStmt(loc, body, annotations)

    def statements(self) -> tuple[ast.Stmt, ...]:
        """Statements up to '}', 'transition' or the end of the file; a broken one is reported and skipped."""
        body: list[ast.Stmt] = []
        while self.kind not in ("}", "EOF"):
            if self.kind == "transition":
                break
            depth, start = self.depth, self.index
            scopes = len(self.scopes)
            try:
                body.append(self.statement())
            except Failure as failure:
                self.errors.add(failure.diagnostic)
                self.depth = depth
                del self.scopes[scopes:]
                self.skip_statement(start)
        return tuple(body)

    def skip_statement(self, start: int) -> None:
        """Go on behind the ';' or the block that ends a broken statement."""
        if self.index == start:
            self.advance()
        nesting = 0
        while self.kind != "EOF":
            if self.kind == "{":
                nesting += 1
            elif self.kind == "}":
                if nesting == 0:
                    return
                nesting -= 1
                if nesting == 0:
                    self.advance()
                    return
            elif self.kind == ";" and nesting == 0:
                self.advance()
                return
            self.advance()

    def statement(self) -> ast.Stmt:
        self.deeper()
        result = self.statement_inside()
        self.depth -= 1
        return result

    def statement_inside(self) -> ast.Stmt:
        kind = self.kind
        loc = self.loc()
        if kind == "if":
            self.advance()
            self.expect("(", "'if'")
            condition = self.expression()
            self.expect(")", "the condition")
            then = self.statement()
            otherwise = self.statement() if self.accept("else") else None
            return ast.IfStmt(loc, condition, then, otherwise)
        if kind == "{":
            return self.block()
        if kind == ";":
            self.advance()
            return ast.EmptyStmt(loc)
        if kind == "return":
            self.advance()
            value = None if self.kind == ";" else self.expression()
            self.expect(";", "'return'")
            return ast.ReturnStmt(loc, value)
        if kind == "exit":
            self.advance()
            self.expect(";", "'exit'")
            return ast.ExitStmt(loc)
        if kind == "switch":
            return self.switch()
        if kind == "const":
            return self.constant(())
        if kind == "for" and self.peek() == "(":
            return self.for_statement()
        if kind in ("break", "continue") and self.peek() == ";":
            self.advance()
            self.advance()
            return ast.BreakStmt(loc) if kind == "break" else ast.ContinueStmt(loc)
        if kind in ("@", "PRAGMA"):
            annotations = self.annotations()
            if self.kind == "{":
                return self.block(annotations)
            if self.kind == "const":
                return self.constant(annotations)
            if self.kind in ("if", "switch", "for"):
                return self.statement()
            return self.typed_declaration(annotations)
        if self.starts_declaration():
            return self.typed_declaration(())
        return self.simple_statement(True)

    def starts_declaration(self) -> bool:
        if self.at_type():
            if self.kind not in ("ID", "."):
                return True
            # Type.apply(...) is a call; Type name, Type(...) name and Type<...> name are declarations.
            index = self.index + (1 if self.kind == "." else 0)
            if self.kinds[index + 1] == "<":
                start = self.index
                try:
                    self.type_ref()
                    is_call = self.kind == "."
                except Failure:
                    is_call = False
                self.seek(start)
                return not is_call
            return self.kinds[index + 1] != "."
        # 'Tpye x': two names in a row can only be a declaration, so that the error is about the type.
        if self.kind == "ID" and self.peek() == "ID":
            name = self.texts[self.index]
            raise Failure(self.loc(), f"unknown type '{name}'", self.type_hint(name))
        return False

    def typed_declaration(self, annotations: tuple[ast.Annotation, ...]) -> ast.Stmt:
        """A variable, or an instantiation, which begins with a type as well."""
        type_ref = self.type_ref()
        if self.kind == "(":
            return self.instantiation(annotations, type_ref)
        name, loc = self.name("a variable name")
        type_ref = self.array_of(type_ref)
        init = self.expression() if self.accept("=") else None
        self.expect(";", f"the declaration of '{name}'")
        self.declare(name, "value")
        return ast.VarDecl(loc, name, annotations, type_ref, init)

    def instantiation(self, annotations: tuple[ast.Annotation, ...], type_ref: ast.TypeRef) -> ast.Stmt:
        args = self.arguments()
        if self.accept("."):  # Type(args).apply(...): an instance without a name
            method, loc = self.name("a method name")
            callee = ast.Member(
                loc, ast.CallExpr(type_ref.loc, ast.TypeExpr(type_ref.loc, type_ref), None, args), method
            )
            call = ast.CallExpr(type_ref.loc, callee, None, self.arguments())
            self.expect(";", "the call")
            return ast.CallStmt(type_ref.loc, call)
        name, loc = self.name("an instance name")
        initializer: tuple[ast.Decl, ...] | None = None
        if self.accept("="):
            initializer = self.object_initializer()
        self.expect(";", f"the instantiation of '{name}'")
        self.declare(name, "value")
        return ast.Instantiation(loc, name, annotations, type_ref, args, initializer)

    def object_initializer(self) -> tuple[ast.Decl, ...]:
        raise NotImplementedError  # given by DeclarationParser

    def constant(self, annotations: tuple[ast.Annotation, ...]) -> ast.ConstDecl:
        self.advance()
        type_ref = self.type_ref()
        name, loc = self.name("a constant's name")
        type_ref = self.array_of(type_ref)
        if not self.accept("="):
            self.unexpected(f"expected '=' after the constant's name '{name}'", "a constant needs a value")
        value = self.expression()
        self.expect(";", f"the value of '{name}'")
        self.declare(name, "value")
        return ast.ConstDecl(loc, name, annotations, type_ref, value)

    def simple_statement(self, with_semicolon: bool) -> ast.Stmt:
        """An assignment or a call."""
        start = self.loc()
        target = self.postfix(self.primary())
        op = _ASSIGNMENTS.get(self.kind)
        loc = self.loc()
        if self.kind == ">" and self.adjacent(">="):
            self.advance()
            op = ">>"
        result: ast.Stmt
        if op is not None:
            self.advance()
            value = self.expression()
            result = ast.AssignStmt(loc, target, value, op)
            what = "the assignment"
        elif isinstance(target, ast.CallExpr):
            result = ast.CallStmt(target.loc, target)
            what = "the call"
        else:
            if self.kind in ("ID", "<") and isinstance(target, ast.Name) and not self.is_known(target.name):
                raise Failure(target.loc, f"unknown type '{target.name}'", self.type_hint(target.name))
            if self.kind in (";", "}", "ID", "EOF"):
                raise Failure(start, "expression is no statement", "write an assignment or a call")
            self.unexpected("expected '=' or '('")
        if with_semicolon:
            self.expect(";", what)
        return result

    def switch(self) -> ast.Stmt:
        loc = self.loc()
        self.advance()
        self.expect("(", "'switch'")
        subject = self.expression()
        self.expect(")", "the switch's subject")
        self.expect("{", "the switch's head")
        cases: list[ast.SwitchCase] = []
        while self.kind not in ("}", "EOF"):
            label_loc = self.loc()
            value: ast.Expr | None = None
            if not self.accept("default"):
                if self.kind == "ID" and self.is_type(self.texts[self.index]) and self.peek() == ":":
                    value = ast.Name(label_loc, self.advance())  # an action named like a type
                else:
                    value = self.expression()
            label = ast.SwitchLabel(label_loc, value)
            self.expect(":", "the switch label")
            body = self.block() if self.kind == "{" else None
            cases.append(ast.SwitchCase(label_loc, label, body))
        self.expect("}", "the switch's cases")
        return ast.SwitchStmt(loc, subject, tuple(cases))

    def for_statement(self) -> ast.Stmt:
        loc = self.loc()
        self.advance()
        self.expect("(", "'for'")
        self.scopes.append({})
        annotations = self.annotations()
        # for (T x in ...) and for (x in ...)
        start = self.index
        element: ast.TypeRef | None = None
        if self.at_type():
            element = self.type_ref()
        if self.at_name() and self.peek() == "in":
            name, _ = self.name("a variable name")
            self.advance()
            if element is not None:
                self.declare(name, "value")
            collection = self.expression()
            if self.kind == "..":
                range_loc = self.loc()
                self.advance()
                collection = ast.RangeExpr(range_loc, collection, self.expression())
            self.expect(")", "the loop's head")
            body = self.statement()
            self.scopes.pop()
            return ast.ForInStmt(loc, element, name, collection, body)
        self.seek(start)
        init: list[ast.Stmt] = []
        while self.kind != ";":
            if self.at_type() and self.starts_declaration():
                type_ref = self.type_ref()
                name, name_loc = self.name("a variable name")
                type_ref = self.array_of(type_ref)
                value = self.expression() if self.accept("=") else None
                self.declare(name, "value")
                init.append(ast.VarDecl(name_loc, name, annotations, type_ref, value))
            else:
                init.append(self.simple_statement(False))
            if not self.accept(","):
                break
        self.expect(";", "the loop's initialization")
        condition = self.expression() if self.kind != ";" else ast.BoolLit(self.loc(), True)
        self.expect(";", "the loop's condition")
        update: list[ast.Stmt] = []
        while self.kind != ")":
            update.append(self.simple_statement(False))
            if not self.accept(","):
                break
        self.expect(")", "the loop's head")
        body = self.statement()
        self.scopes.pop()
        return ast.ForStmt(loc, tuple(init), condition, tuple(update), body)
