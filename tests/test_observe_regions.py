"""Which bytes of a block a view has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlint.confirm.observe.events import (
    Block,
    Strides,
    Touch,
)
from streamlint.confirm.observe.layout import layout
from streamlint.confirm.observe.translate import region
from streamlint.trace import (
    BufferId,
    Mode,
    Space,
)
from streamlint.trace.regions import Overlap, Region, overlap


def block_of(size: int) -> Block:
    return Block(BufferId(1), 0, size, Space.DEVICE, "0", None, None)


def test_a_dense_view_of_everything_is_the_whole_block() -> None:
    assert region(Touch(block_of(64), Mode.READ, 0, 64)) == ()
    assert region(Touch(block_of(64), Mode.READ, 0, 32)) != ()


VIEWS = {
    "x[:, :2]": ((4, 2), (4, 1), 0),
    "x[:, 2:]": ((4, 2), (4, 1), 8),
    "x[:, 1:]": ((4, 3), (4, 1), 4),
    "x[:2]": ((2, 4), (4, 1), 0),
    "x[2:]": ((2, 4), (4, 1), 32),
    "x[0]": ((4,), (1,), 0),
    "x[:, 0]": ((4,), (4,), 0),
    "x.flatten()[::2]": ((8,), (2,), 0),
    "x.flatten()[1::2]": ((8,), (2,), 4),
    "x.flatten()[::3]": ((5,), (3,), 0),
}
"""Shape, strides and offset in bytes of views of a 4 by 4 matrix of 4-byte elements."""


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ("x[:, :2]", "x[:, 2:]", Overlap.NO),
        ("x[:, :2]", "x[:, 1:]", Overlap.YES),
        ("x.flatten()[::2]", "x.flatten()[1::2]", Overlap.NO),
        ("x[:2]", "x[2:]", Overlap.NO),
        ("x[0]", "x[:, 0]", Overlap.YES),
        ("x[:, 0]", "x.flatten()[::3]", Overlap.MAYBE),
    ],
)
def test_views_overlap_where_their_bytes_may(one: str, other: str, answer: Overlap) -> None:
    assert overlap(of_view(*VIEWS[one]), of_view(*VIEWS[other])) is answer


def of_view(shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Region:
    span, strides = layout(shape, stride, 4, offset)
    return region(Touch(block_of(64), Mode.READ, offset, offset + span, strides))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 3),
    st.permutations(range(3)),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_the_bytes_of_a_view_lie_in_its_columns(
    shape: list[int], offset: int, order: list[int], gaps: list[int]
) -> None:
    item = 2
    step, strides = 1, [0] * len(shape)
    for axis in (axis for axis in order if axis < len(shape)):
        strides[axis] = step * gaps[axis]
        step = strides[axis] * shape[axis]
    span, columns = layout(tuple(shape), tuple(strides), item, offset * item)
    places = [0]
    for count, stride in zip(shape, strides, strict=True):
        places = [place + i * stride for place in places for i in range(count)]
    first = offset * item
    covered = {first + place * item + byte for place in places for byte in range(item)}
    assert max(covered) - min(covered) + 1 == span
    if columns is None:
        assert len(covered) == span
    else:
        assert all(
            columns.column <= byte % columns.pitch < columns.column + columns.width for byte in covered
        )


def test_strides_say_what_a_view_skips() -> None:
    assert layout((4, 2), (4, 1), 4, 8) == (56, Strides(16, 8, 8))
    assert layout((3, 4), (4, 1), 4, 0) == (48, None)
    assert layout((4, 3), (1, 4), 4, 0) == (48, None)  # transposed: as dense
    assert layout((5, 3), (0, 1), 4, 0) == (12, None)  # expanded
