"""Notifications: each once, in order per source, found by source and region."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from endpoint.tma.notifications import Notification, Notifications

PLACES = st.tuples(st.integers(0, 2), st.integers(0, 2))
WANTED = st.tuples(st.none() | st.integers(0, 2), st.none() | st.integers(0, 2))


@given(st.lists(PLACES | WANTED.map(lambda wanted: ("take", *wanted)), max_size=60))
def test_take_equals_a_search_of_a_list(steps: list[tuple[object, ...]]) -> None:
    kept, model = Notifications(20), list[Notification]()
    for number, step in enumerate(steps):
        if step[0] == "take":
            src, key = step[1:]
            expected = next((one for one in model if src in (None, one.src) and key in (None, one.key)), None)
            assert kept.take(src, key) == expected  # type: ignore[arg-type]
            if expected is not None:
                model.remove(expected)
        elif not kept.full:
            src, key = step
            model.append(Notification(src, key, number, 1))  # type: ignore[arg-type]
            kept.add(model[-1])
        assert len(kept) == len(model)
        assert kept.full == (len(model) >= 20)
    assert [kept.take(None, None) for _ in range(len(model) + 1)] == [*model, None]
