from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass

import pylibcudf as plc
import rmm
from cuda.bindings import runtime as cudart
from rmm.pylibrmm.cuda_stream import CudaStreamFlags
from rmm.pylibrmm.cuda_stream_pool import CudaStreamPool
from rmm.pylibrmm.stream import Stream

_POOL = CudaStreamPool(pool_size=8, flags=CudaStreamFlags.NON_BLOCKING)
_ROUND_ROBIN = itertools.count()


def get_new_cuda_stream() -> Stream:
    return _POOL.get_stream(next(_ROUND_ROBIN) % _POOL.get_pool_size())


def _handle(stream: Stream) -> int:
    return stream.__cuda_stream__()[1]


def _check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return values[0] if values else None


def join_cuda_streams(*, downstreams, upstreams) -> None:
    for upstream in upstreams:
        event = _check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        _check(cudart.cudaEventRecord(event, _handle(upstream)))
        for downstream in downstreams:
            _check(cudart.cudaStreamWaitEvent(_handle(downstream), event, 0))
        _check(cudart.cudaEventDestroy(event))


@dataclass
class DataFrame:
    table: plc.Table
    stream: Stream


@contextlib.contextmanager
def stream_ordered_after(*dfs: DataFrame):
    """Yields a stream ordered after the frames; the frames' streams are ordered after it on exit."""
    upstreams = [df.stream for df in dfs]
    result_stream = get_new_cuda_stream()
    join_cuda_streams(downstreams=(result_stream,), upstreams=upstreams)
    yield result_stream
    join_cuda_streams(downstreams=upstreams, upstreams=(result_stream,))


class KeyExpr:
    """Column plus a constant, as an expression of the join condition."""

    def __init__(self, index: int, offset: int):
        self.index = index
        self.offset = offset

    def evaluate(self, df: DataFrame) -> plc.Column:
        dtype = plc.DataType(plc.TypeId.INT64)
        column = plc.unary.cast(df.table.columns()[self.index], dtype, df.stream)
        scalar = plc.Scalar.from_py(self.offset, dtype, df.stream)
        return plc.binaryop.binary_operation(
            column, scalar, plc.binaryop.BinaryOperator.ADD, dtype, df.stream
        )


class Join:
    def __init__(self, left_on: KeyExpr, right_on: KeyExpr):
        self.left_on = left_on
        self.right_on = right_on

    def do_evaluate(self, left: DataFrame, right: DataFrame) -> DataFrame:
        left_keys = plc.Table([self.left_on.evaluate(left)])
        right_keys = plc.Table([self.right_on.evaluate(right)])
        policy = plc.copying.OutOfBoundsPolicy.DONT_CHECK
        with stream_ordered_after(left, right) as stream:
            lg, rg = plc.join.inner_join(
                left_keys, right_keys, plc.types.NullEquality.UNEQUAL, stream
            )
            left_out = plc.copying.gather(left.table, lg, policy, stream)
            right_out = plc.copying.gather(right.table, rg, policy, stream)
            result = DataFrame(plc.Table([*left_out.columns(), *right_out.columns()]), stream)
        return result


def scan(path: str, columns: list[str]) -> DataFrame:
    stream = get_new_cuda_stream()
    builder = plc.io.parquet.ParquetReaderOptions.builder(plc.io.SourceInfo([path]))
    return DataFrame(plc.io.parquet.read_parquet(builder.columns(columns).build(), stream).tbl, stream)


def evaluate(partitions, columns):
    join, results = Join(KeyExpr(0, 0), KeyExpr(0, 1)), []
    for left_path, right_path in partitions:
        results.append(join.do_evaluate(scan(left_path, columns[0]), scan(right_path, columns[1])))
    with stream_ordered_after(*results) as out:
        merged = plc.concatenate.concatenate([df.table for df in results], out)
    _check(cudart.cudaStreamSynchronize(_handle(out)))
    return merged


if __name__ == "__main__":
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    parts = [(f"orders.{i}.parquet", f"lines.{i}.parquet") for i in range(16)]
    print(evaluate(parts, (["o_key", "o_total"], ["l_prev", "l_price"])).num_rows())
