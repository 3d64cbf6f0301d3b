"""Rolling-window expressions of a dataframe engine where every frame carries a CUDA stream."""
from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import List

import pylibcudf as plc
from cudf_polars.utils.cuda_stream import get_joined_cuda_stream, get_new_cuda_stream
from rmm.pylibrmm.stream import Stream


@functools.cache
def get_stream_for_offset_windows() -> Stream:
    """Stream on which the scalars of offset windows are built."""
    return get_new_cuda_stream()


def duration_to_scalar(dtype: plc.DataType, value: int) -> plc.Scalar:
    return plc.Scalar.from_py(value, dtype, stream=get_stream_for_offset_windows())


@dataclass
class DataFrame:
    columns: List[plc.Column]
    names: List[str]
    stream: Stream

    def column(self, name: str) -> plc.Column:
        return self.columns[self.names.index(name)]


class RollingBounds:
    """``orderby + preceding`` and ``orderby + following`` for one frame."""

    DTYPE = plc.DataType(plc.TypeId.DURATION_NANOSECONDS)

    def __init__(self, orderby: str, preceding: int, following: int):
        self.orderby = orderby
        self.preceding = duration_to_scalar(self.DTYPE, preceding)
        self.following = duration_to_scalar(self.DTYPE, following)

    def do_evaluate(self, df: DataFrame) -> DataFrame:
        stream = df.stream
        orderby = df.column(self.orderby)
        out_type = orderby.type()
        bounds = [
            plc.binaryop.binary_operation(
                orderby, scalar, plc.binaryop.BinaryOperator.ADD, out_type, stream=stream,
            )
            for scalar in (self.preceding, self.following)
        ]
        return DataFrame(bounds, ["lower", "upper"], stream)


class FilterInWindow:
    def __init__(self, bounds: RollingBounds, value: str):
        self.bounds = bounds
        self.value = value

    def do_evaluate(self, df: DataFrame, reference: DataFrame) -> DataFrame:
        limits = self.bounds.do_evaluate(reference)
        stream = get_joined_cuda_stream(upstreams=(df.stream, limits.stream))
        column = df.column(self.value)
        bool_type = plc.DataType(plc.TypeId.BOOL8)
        above = plc.binaryop.binary_operation(
            column, limits.column("lower"), plc.binaryop.BinaryOperator.GREATER_EQUAL, bool_type, stream=stream,
        )
        below = plc.binaryop.binary_operation(
            column, limits.column("upper"), plc.binaryop.BinaryOperator.LESS_EQUAL, bool_type, stream=stream,
        )
        mask = plc.binaryop.binary_operation(
            above, below, plc.binaryop.BinaryOperator.LOGICAL_AND, bool_type, stream=stream,
        )
        stream.synchronize()
        return DataFrame([mask], ["in_window"], stream)


def evaluate(df: DataFrame, reference: DataFrame, orderby: str, value: str, before_ns: int, after_ns: int) -> DataFrame:
    return FilterInWindow(RollingBounds(orderby, -before_ns, after_ns), value).do_evaluate(df, reference)
