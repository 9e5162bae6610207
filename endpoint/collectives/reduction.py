"""The operators of reductions, and which types they take."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import numpy as np

from endpoint.collectives.mailbox import CHUNK_BYTES


class Operator(StrEnum):
    """How values are combined, element by element."""

    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"


_UFUNCS: Final[dict[Operator, np.ufunc]] = {
    Operator.SUM: np.add, Operator.PROD: np.multiply, Operator.MIN: np.minimum, Operator.MAX: np.maximum,
}  # fmt: skip


def ufunc_for(operator: Operator | str, dtype: np.dtype[Any]) -> np.ufunc:
    """Return the function that combines two arrays of a type.

    Raises ValueError for an unknown operator, TypeError for a type that it does not take or does not keep.
    """
    try:
        known = Operator(operator)
    except ValueError:
        raise ValueError(f"there is no operator {operator!r}; choose {', '.join(Operator)}") from None
    check_movable(dtype)
    ufunc = _UFUNCS[known]
    none = np.empty(0, dtype)
    try:
        ufunc(none, none, out=none)
    except TypeError:
        raise TypeError(f"{known} does not take arrays of type {dtype}") from None
    if CHUNK_BYTES % dtype.itemsize:
        raise TypeError(f"{known} does not take arrays of type {dtype}: {dtype.itemsize} bytes each")
    return ufunc


def check_movable(dtype: np.dtype[Any]) -> None:
    """Raise TypeError for a type whose bytes mean nothing on another GPU."""
    if dtype.hasobject or not dtype.itemsize:
        raise TypeError(f"arrays of type {dtype} cannot be sent to other GPUs; only types of a fixed size can")
