"""Annotations as P4Info shows them."""

from __future__ import annotations

from collections.abc import Collection

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend.elaborate.objects import annotation, text_of
from p4switch.frontend.errors import Failure
from p4switch.frontend.lexer import parse_int

# Unstructured annotations that P4Info has fields for.
_SHOWN_OTHERWISE = frozenset(["name", "id", "brief", "description"])


def notes(
    annotations: tuple[ast.Annotation, ...], without: Collection[str] = (), without_structured: Collection[str] = ()
) -> ir.Notes:
    """Collect annotations, but the unstructured ones in `without` and the structured ones in `without_structured`."""
    if not annotations:
        return ir.Notes()
    texts: list[str] = []
    structured: list[ir.StructuredAnnotation] = []
    for found in annotations:
        if found.structured:
            if found.name in without_structured:
                continue
            structured.append(structured_annotation(found))
        elif found.name not in _SHOWN_OTHERWISE and found.name not in without:
            texts.append(annotation_text(found))
    brief, description = annotation(annotations, "brief"), annotation(annotations, "description")
    return ir.Notes(
        tuple(texts),
        tuple(structured),
        text_of(brief) if brief is not None else "",
        text_of(description) if description is not None else "",
    )


def annotation_text(found: ast.Annotation) -> str:
    """Write an annotation as p4c does: the tokens of its body with spaces between them."""
    if not found.tokens:
        return f"@{found.name}"
    return f"@{found.name}({' '.join(text for _, text in found.tokens)})"


def structured_annotation(found: ast.Annotation) -> ir.StructuredAnnotation:
    items = tuple(_literal(e, found.name) for e in found.expressions)
    pairs = tuple((key, _literal(e, found.name)) for key, e in found.pairs)
    return ir.StructuredAnnotation(found.name, items, pairs)


def _literal(node: ast.Expr, name: str) -> int | bool | str:
    """Evaluate what a structured annotation holds: literals and arithmetic on integers."""
    if isinstance(node, ast.IntLit | ast.BoolLit | ast.StringLit):
        return node.value
    if isinstance(node, ast.UnaryExpr) and node.op == "-":
        return -int(_literal(node.operand, name))
    if isinstance(node, ast.BinaryExpr) and node.op in ("+", "-", "*", "++", "==", "<", ">", "!="):
        left, right = _literal(node.left, name), _literal(node.right, name)
        if isinstance(left, str) or isinstance(right, str):
            if node.op == "++":
                return str(left) + str(right)
        else:
            results = {
                "+": left + right,
                "-": left - right,
                "*": left * right,
                "==": left == right,
                "<": left < right,
                ">": left > right,
                "!=": left != right,
            }
            if node.op in results:
                return results[node.op]
    raise Failure(
        node.loc, f"annotation @{name}[...] holds a value that is no literal", "use integers, strings, true or false"
    )


MAX_ID = (1 << 32) - 1
MAX_NUMBER = (1 << 31) - 1  # of the other numbers in P4Info


def number_of(annotations: tuple[ast.Annotation, ...], name: str, most: int = MAX_NUMBER) -> int | None:
    """Give N of @name(N)."""
    found = annotation(annotations, name)
    if found is None or not found.tokens:
        return None
    text = "".join(t for _, t in found.tokens)
    try:
        number = parse_int(text.removeprefix("-"), found.loc)[0] * (-1 if text.startswith("-") else 1)
    except Failure:
        raise Failure(found.loc, f"@{name} needs an integer, found '{text}'") from None
    if abs(number) > most:
        raise Failure(found.loc, f"@{name}({number}) is out of range", f"at most {most}")
    return number


def field_ids(owners: list[tuple[ast.Annotation, ...]]) -> list[int]:
    """Number the fields of one object: @id(N) first, the others count up from 1 around those."""
    chosen: list[int | None] = []
    for owner in owners:
        number = number_of(owner, "id", MAX_ID)
        if number is not None:
            found = annotation(owner, "id")
            assert found is not None
            if number <= 0:
                raise Failure(found.loc, f"@id({number}) is not a valid id", "ids are positive")
            if number in chosen:
                raise Failure(found.loc, f"@id({number}) is used twice here")
        chosen.append(number)
    taken = {n for n in chosen if n is not None}
    result: list[int] = []
    index = 1
    for number in chosen:
        if number is not None:
            result.append(number)
            index += 1
            continue
        while index in taken:
            index += 1
        result.append(index)
        taken.add(index)
    return result
