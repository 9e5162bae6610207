"""Conformance cases of link-layer retry on a switch with a fault, for ptf: see tests/conformance/mutations.py."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ptf_tests.conformance.run import CASES
from tests.conformance.mutations import REGISTER, Mutation, chosen

PATIENCE = 0.3
"""What should happen does not, so it is not waited for as long."""

sys.path.append(str(CASES))


def _mutated(number: int, mutation: Mutation) -> type[Any]:
    """Return a case as it runs on a switch with this fault; its records have the fault's name."""
    module, _, name = mutation.test.partition(".")
    right: Any = getattr(importlib.import_module(module), name)

    class Mutated(right):
        case = mutation.name
        patience = PATIENCE
        windows_most = 1

        def setUp(self) -> None:
            super().setUp()
            self.addCleanup(self.switch.write_register, REGISTER, 0, 0)
            self.switch.write_register(REGISTER, 0, number)

    return Mutated


for _number, _mutation in chosen():
    globals()[f"Mutated{_number}"] = _mutated(_number, _mutation)
