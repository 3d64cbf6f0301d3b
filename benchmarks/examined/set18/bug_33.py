from __future__ import annotations

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
    """Make every downstream wait for the work queued so far on every upstream."""
    for upstream in upstreams:
        event = _check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        _check(cudart.cudaEventRecord(event, _handle(upstream)))
        for downstream in downstreams:
            _check(cudart.cudaStreamWaitEvent(_handle(downstream), event, 0))
        _check(cudart.cudaEventDestroy(event))


def get_joined_cuda_stream(*, upstreams) -> Stream:
    stream = get_new_cuda_stream()
    join_cuda_streams(downstreams=(stream,), upstreams=upstreams)
    return stream


@dataclass
class DataFrame:
    table: plc.Table
    stream: Stream


class Scan:
    def __init__(self, path: str, columns: list[str]):
        self.path = path
        self.columns = columns

    def do_evaluate(self) -> DataFrame:
        stream = get_new_cuda_stream()
        options = (
            plc.io.parquet.ParquetReaderOptions.builder(plc.io.SourceInfo([self.path]))
            .columns(self.columns)
            .build()
        )
        return DataFrame(plc.io.parquet.read_parquet(options, stream).tbl, stream)


def cast_column(df: DataFrame, index: int, dtype: plc.DataType, stream: Stream) -> DataFrame:
    columns = list(df.table.columns())
    columns[index] = plc.unary.cast(columns[index], dtype, stream)
    return DataFrame(plc.Table(columns), stream)


class Join:
    def __init__(self, left_on: int, right_on: int):
        self.left_on = left_on
        self.right_on = right_on

    def do_evaluate(self, left: DataFrame, right: DataFrame) -> DataFrame:
        stream = get_joined_cuda_stream(upstreams=(left.stream, right.stream))
        key = plc.DataType(plc.TypeId.INT64)
        left = cast_column(left, self.left_on, key, stream)
        right = cast_column(right, self.right_on, key, stream)

        left_keys = plc.Table([left.table.columns()[self.left_on]])
        right_keys = plc.Table([right.table.columns()[self.right_on]])
        lg, rg = plc.join.inner_join(left_keys, right_keys, plc.types.NullEquality.UNEQUAL, stream)

        policy = plc.copying.OutOfBoundsPolicy.DONT_CHECK
        left = DataFrame(plc.copying.gather(left.table, lg, policy, stream), stream)
        right = DataFrame(plc.copying.gather(right.table, rg, policy, stream), stream)
        result = DataFrame(plc.Table([*left.table.columns(), *right.table.columns()]), stream)
        join_cuda_streams(downstreams=(left.stream, right.stream), upstreams=(result.stream,))
        return result


def evaluate(partitions, columns):
    join, results = Join(0, 0), []
    for left_path, right_path in partitions:
        results.append(
            join.do_evaluate(Scan(left_path, columns[0]).do_evaluate(), Scan(right_path, columns[1]).do_evaluate())
        )
    out = get_joined_cuda_stream(upstreams=[df.stream for df in results])
    merged = plc.concatenate.concatenate([df.table for df in results], out)
    _check(cudart.cudaStreamSynchronize(_handle(out)))
    return merged


if __name__ == "__main__":
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    parts = [(f"orders.{i}.parquet", f"lines.{i}.parquet") for i in range(16)]
    print(evaluate(parts, (["o_key", "o_total"], ["l_key", "l_price"])).num_rows())
