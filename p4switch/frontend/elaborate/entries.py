"""Entries of tables that the program gives: keysets, actions and priorities."""

from __future__ import annotations

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.base import numeric
from p4switch.frontend.elaborate.notes import number_of
from p4switch.frontend.elaborate.statements import Statements
from p4switch.frontend.elaborate.values import ActionVal, Value
from p4switch.frontend.errors import did_you_mean

_RANKED = (ir.MatchKind.TERNARY, ir.MatchKind.RANGE, ir.MatchKind.OPTIONAL)


class Entries(Statements):
    """Lowers the entries property."""

    def action_expression(self, node: ast.Expr, refs: dict[str, ActionVal], table: str) -> tuple[str, tuple[int, ...]]:
        """Evaluate `action` or `action(args)` as default_action has it: (name in the table, action data)."""
        callee, args = (node.callee, node.args) if isinstance(node, ast.CallExpr) else (node, ())
        if not isinstance(callee, ast.Name):
            self.fail(node.loc, "an action was expected here", f"actions of the table: {', '.join(refs)}")
        return self.action_data(ast.ActionRef(callee.loc, callee.name, callee.absolute, args, ()), refs, table)

    def action_data(self, ref: ast.ActionRef, refs: dict[str, ActionVal], table: str) -> tuple[str, tuple[int, ...]]:
        action = refs.get(ref.name)
        if action is None:
            hint = did_you_mean(ref.name, refs, "actions of the table")
            self.fail(ref.loc, f"action '{ref.name}' is not in the list of actions of table '{table}'", hint)
        params = action.decl.params
        data_params = tuple(p for p in params if not p.direction)
        args = ref.args or ()
        # The arguments of directional parameters may be repeated from the list of actions, or left out.
        wanted = params if len(args) == len(params) else data_params
        values: list[int] = []
        for param, node, loc in self.match(f"action '{ref.name}'", wanted, args, ref.loc):
            if param.direction:
                continue
            with self.scoped(action.scope):
                kind = self.resolve_type(param.type)
            assert node is not None
            with self.capture():
                value = self.typed(node, kind)
            if not isinstance(value, Value) or value.constant is None:
                if value.type is ty.UNKNOWN:
                    return ref.name, ()
                self.fail(loc, f"argument for '{param.name}' must be known at compile time")
            values.append(value.constant)
        return ref.name, tuple(values)

    def table_entries(
        self,
        node: ast.TableDecl,
        keys: list[ir.Key],
        kinds: list[ty.Type],
        refs: dict[str, ActionVal],
        names: list[str],
        actions: list[ir.TableAction],
        properties: dict[str, ast.Property],
    ) -> tuple[ir.ConstEntry, ...]:
        assert node.entries is not None
        rows: list[tuple[ast.Entry, tuple[ir.KeyMatch, ...], str, tuple[int, ...]]] = []
        for entry in node.entries:
            with self.collecting():
                keysets = entry.keysets
                if len(keysets) == 1 and isinstance(keysets[0], ast.ListExpr):
                    keysets = keysets[0].items
                if len(keysets) == 1 and isinstance(keysets[0], ast.AnyExpr) and len(keys) > 1:
                    keysets = keysets * len(keys)
                if len(keysets) != len(keys):
                    self.fail(entry.loc, f"table '{node.name}' has {len(keys)} keys, this entry gives {len(keysets)}")
                matches = tuple(self.key_match(e, k, t) for e, k, t in zip(keysets, keys, kinds, strict=True))
                name, args = self.action_data(entry.action, refs, node.name)
                if name not in names:
                    continue  # what is wrong with it was said at the list of actions
                action = actions[names.index(name)]
                if action.default_only:
                    self.fail(entry.action.loc, f"action '{name}' is @defaultonly and cannot be used in an entry")
                rows.append((entry, matches, action.action, args))
        ranked = any(k.match in _RANKED for k in keys)
        priorities = self.priorities(node, [r[0] for r in rows], properties, ranked)
        return tuple(
            ir.ConstEntry(matches, action, args, priority, entry.is_const or node.entries_const)
            for (entry, matches, action, args), priority in zip(rows, priorities, strict=True)
        )

    def priorities(
        self, node: ast.TableDecl, entries: list[ast.Entry], properties: dict[str, ast.Property], ranked: bool
    ) -> list[int]:
        """Give P4Runtime priorities (larger wins): the entries' own, or by their order, the first one winning."""
        if not ranked:
            for entry in entries:
                if entry.priority is not None:
                    hint = "only ternary, range and optional keys need priorities"
                    self.errors.error(entry.loc, f"priority in table '{node.name}'", hint)
            return [0] * len(entries)
        annotated = [number_of(e.annotations, "priority") for e in entries]
        if any(p is not None for p in annotated):
            # p4c's older way for BMv2: the smallest wins, an entry without one counts its position.
            ranks = [i + 1 if p is None else p for i, p in enumerate(annotated)]
            return [max(ranks) + 1 - rank for rank in ranks]
        if all(e.priority is None for e in entries) and "priority_delta" not in properties:
            return list(range(len(entries), 0, -1))
        largest_first = True
        for name in ("largest_priority_first", "largest_priority_wins"):
            if name in properties:
                with self.collecting():
                    largest_first = bool(numeric(self.typed(properties[name].value, ty.BOOL)))
        if any(e.priority is not None for e in entries[1:]) and entries[0].priority is None:
            self.errors.error(entries[0].loc, "the first entry has no priority, but others have", "give it one as well")
        delta = 1
        if "priority_delta" in properties:
            delta = self.constant_int(properties["priority_delta"].value, "priority_delta")
        values: list[int] = []
        for i, entry in enumerate(entries):
            if entry.priority is not None:
                value = self.constant_int(entry.priority, "a priority")
            elif i == 0:
                value = (len(entries) - 1) * delta + 1 if largest_first else 1
            else:
                value = values[-1] - delta if largest_first else values[-1] + delta
            if value < 0:
                self.errors.error(entry.loc, f"priority {value} of an entry is negative")
            values.append(value)
        if largest_first:
            return values
        top = max(values, default=0) + 1
        return [top - v for v in values]

    def key_match(self, node: ast.Expr, key: ir.Key, kind: ty.Type) -> ir.KeyMatch:
        """Lower one component of an entry's key by the key's match kind."""
        full = (1 << key.width) - 1
        match = key.match
        if isinstance(node, ast.AnyExpr):
            if match is ir.MatchKind.EXACT:
                self.fail(node.loc, f"'_' for exact key '{key.name}'", "an exact key needs a value")
            return ir.KeyMatch(0, full if match is ir.MatchKind.RANGE else 0, 0, True)
        if isinstance(node, ast.MaskExpr):
            if match not in (ir.MatchKind.TERNARY, ir.MatchKind.LPM):
                self.fail(node.loc, f"'&&&' for {match.value} key '{key.name}'", "masks are for ternary and lpm keys")
            value, mask = self.keyset_value(node.value, kind), self.keyset_value(node.mask, kind)
            if match is ir.MatchKind.LPM:
                prefix = key.width - (full ^ mask).bit_length()
                if mask != full ^ (full >> prefix if prefix else full):
                    self.fail(
                        node.mask.loc,
                        f"mask of lpm key '{key.name}' is no prefix",
                        "its ones must be on the left, without gaps",
                    )
                return ir.KeyMatch(value & mask, 0, prefix, prefix == 0)
            return ir.KeyMatch(value & mask, mask, 0, mask == 0)
        if isinstance(node, ast.RangeExpr):
            if match is not ir.MatchKind.RANGE:
                self.fail(node.loc, f"'..' for {match.value} key '{key.name}'", "ranges are for range keys")
            low, high = self.keyset_value(node.lo, kind), self.keyset_value(node.hi, kind)
            if low > high:
                self.fail(node.loc, f"range {low}..{high} is empty", "put the smaller bound first")
            return ir.KeyMatch(low, high, 0, low == 0 and high == full)
        value = self.keyset_value(node, kind)
        if match is ir.MatchKind.TERNARY:
            return ir.KeyMatch(value, full)
        if match is ir.MatchKind.RANGE:
            return ir.KeyMatch(value, value)
        if match is ir.MatchKind.LPM:
            return ir.KeyMatch(value, 0, key.width)
        return ir.KeyMatch(value)

    def keyset_value(self, node: ast.Expr, kind: ty.Type) -> int:
        """Evaluate a constant of a keyset, as the unsigned pattern of the key's type."""
        if isinstance(kind, ty.SerEnum) and isinstance(node, ast.IntLit | ast.CastExpr):
            kind = kind.base  # a mask of an enum, or what it masks
        with self.capture():
            operand = self.typed(node, kind)
        if operand.type is ty.UNKNOWN:
            return 0
        if not isinstance(operand, Value) or operand.constant is None:
            self.fail(node.loc, f"a keyset must be known at compile time, found {operand.what}")
        return operand.constant
