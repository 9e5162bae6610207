"""Which blocks are placed, and the bitmap that says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import BLOCK_WINDOW
from endpoint.tma.blocks import Placed, bitmap_of, bits_of, block_count
from endpoint.tma.unit import split

INDICES = st.lists(st.integers(0, 60), max_size=80)


@given(INDICES)
def test_placed_equals_a_set(indices: list[int]) -> None:
    placed, model = Placed(), set[int]()
    for index in indices:
        assert (index in placed) == (index in model)
        placed.add(index)
        model.add(index)
        lowest = next(number for number in range(62) if number not in model)
        assert (placed.lowest, placed.count) == (lowest, len(model))
        assert placed.missing(61) == [number for number in range(61) if number not in model]
        bits = bits_of(placed.after_lowest())
        assert {lowest + 1 + bit for bit in range(60) if bits >> bit & 1} == {one for one in model if one > lowest}


@given(INDICES, INDICES, st.randoms())
def test_merging_acks_in_any_order(first: list[int], second: list[int], chooser: object) -> None:
    """A source that takes ACKs, late ones too, ends up with the newest."""
    target, source = Placed(), Placed()
    acks = []
    for index in [*first, *second]:
        target.add(index)
        acks.append((target.lowest, bits_of(target.after_lowest())))
    chooser.shuffle(acks)  # type: ignore[attr-defined]
    new = sum(source.merge(*ack) for ack in acks)
    assert (source.lowest, source.ahead) == (target.lowest, target.ahead)
    assert new == target.count


def test_first_block_is_in_the_most_significant_bit() -> None:
    assert bitmap_of(0) == b""
    assert bitmap_of(0b11) == b"\xc0"
    assert bitmap_of(1 << 8) == b"\x00\x80"
    assert bits_of(b"\x00\x80") == 1 << 8
    assert bits_of(bytes(BLOCK_WINDOW // 8)) == 0
    with pytest.raises(ValueError, match="at most 128 bytes, not 129"):
        bits_of(bytes(129))


def test_counts() -> None:
    assert [block_count(total, 11) for total in (0, 1, 2048, 2049, 2**32 - 1)] == [1, 1, 1, 2, 1 << 21]
    assert split(0) == [(0, 0)]
    assert split(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert split(2**32) == [(0, 2**32 - 1), (2**32 - 1, 2**32)]
