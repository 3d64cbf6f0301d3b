"""Streaming union of parquet partitions with pylibcudf; every partition has its own CUDA stream."""
import cupy as cp
import pylibcudf as plc
import rmm
from rmm.pylibrmm.cuda_stream_pool import CudaStreamPool

_POOL = None


def get_cuda_stream():
    global _POOL
    if _POOL is None:
        _POOL = CudaStreamPool(8)
    return _POOL.get_stream()


def _external(stream):
    _, handle = stream.__cuda_stream__()
    return cp.cuda.ExternalStream(handle)


def join_cuda_streams(*, downstreams, upstreams):
    """Make later work on every downstream wait for the work queued on all upstreams."""
    events = []
    for upstream in upstreams:
        event = cp.cuda.Event(disable_timing=True)
        event.record(_external(upstream))
        events.append(event)
    for downstream in downstreams:
        for event in events:
            _external(downstream).wait_event(event)


class DataFrame:
    """A table that is valid on its stream."""

    def __init__(self, table, stream):
        self.table = table
        self.stream = stream

    @property
    def columns(self):
        return self.table.columns()


class Scan:
    def __init__(self, path):
        self.path = path

    def evaluate(self):
        stream = get_cuda_stream()
        options = plc.io.parquet.ParquetReaderOptions.builder(
            plc.io.SourceInfo([self.path])
        ).build()
        result = plc.io.parquet.read_parquet(options, stream=stream)
        return DataFrame(result.tbl, stream)


class Union:
    def __init__(self, *children):
        self.children = children

    @staticmethod
    def do_evaluate(*dfs):
        stream = get_cuda_stream()
        join_cuda_streams(downstreams=(stream,), upstreams=[df.stream for df in dfs])
        table = plc.concatenate.concatenate([df.table for df in dfs], stream=stream)
        return DataFrame(table, stream)

    def evaluate(self):
        return self.do_evaluate(*(child.evaluate() for child in self.children))


class SortedSink:
    def __init__(self, key_index):
        self.key_index = key_index

    def write(self, df, path):
        keys = plc.Table([df.columns[self.key_index]])
        ordered = plc.sorting.sort_by_key(
            df.table,
            keys,
            [plc.types.Order.ASCENDING],
            [plc.types.NullOrder.AFTER],
            stream=df.stream,
        )
        sink = plc.io.SinkInfo([path])
        options = plc.io.parquet.ParquetWriterOptions.builder(sink, ordered).build()
        plc.io.parquet.write_parquet(options, stream=df.stream)
        df.stream.synchronize()


def main(partitions):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    plans = [Union(Scan(a), Scan(b)) for a, b in zip(partitions[::2], partitions[1::2])]
    frames = [plan.evaluate() for plan in plans]
    sink = SortedSink(key_index=0)
    for index, frame in enumerate(frames):
        sink.write(frame, f"out/part.{index}.parquet")


if __name__ == "__main__":
    main([f"in/part.{k}.parquet" for k in range(32)])
