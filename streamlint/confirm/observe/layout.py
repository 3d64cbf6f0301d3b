"""Which bytes a strided view covers."""

from __future__ import annotations

from functools import lru_cache

from streamlint.confirm.observe.events import Strides


@lru_cache(4096)
def layout(
    shape: tuple[int, ...], stride: tuple[int, ...], item: int, offset: int
) -> tuple[int, Strides | None]:
    """The bytes from the first to the last of a view, and its columns if it is not dense.

    ``offset`` is the place of its first byte in its block, and ``item`` the size of an element. A program
    has few layouts and asks for them often: ``x @ w.t()`` in each step.
    """
    axes = sorted(
        (step * item, count) for step, count in zip(stride, shape, strict=True) if count > 1 and step
    )
    span = item + sum(step * (count - 1) for step, count in axes)
    width = item
    while axes and axes[0][0] <= width:
        step, count = axes.pop(0)
        width = max(width, step * (count - 1) + width)
    if not axes:
        return span, None
    pitch = axes[0][0]
    column = offset % pitch
    if column + width > pitch or any(step % pitch for step, _ in axes):
        column, width = 0, pitch
    return span, Strides(pitch, column, width)
