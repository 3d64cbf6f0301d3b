"""Left-semi join of two parquet partitions with pylibcudf, every frame on its own CUDA stream."""
import pylibcudf as plc
import rmm
from cuda.bindings import runtime as cudart
from rmm.pylibrmm.cuda_stream_pool import CudaStreamPool


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


def handle(stream):
    return stream.__cuda_stream__()[1]


def join_cuda_streams(*, downstreams, upstreams):
    for upstream in upstreams:
        event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        check(cudart.cudaEventRecord(event, handle(upstream)))
        for downstream in downstreams:
            check(cudart.cudaStreamWaitEvent(handle(downstream), event, 0))
        check(cudart.cudaEventDestroy(event))


class DataFrame:
    def __init__(self, table, stream):
        self.table = table
        self.stream = stream


class Context:
    def __init__(self, size=6):
        self.pool = CudaStreamPool(size)

    def get_cuda_stream(self):
        return self.pool.get_stream()


class Scan:
    def __init__(self, path, columns):
        self.path = path
        self.columns = columns

    def evaluate(self, context):
        stream = context.get_cuda_stream()
        options = plc.io.parquet.ParquetReaderOptions.builder(
            plc.io.SourceInfo([self.path])
        ).build()
        options.set_columns(self.columns)
        table = plc.io.parquet.read_parquet(options, stream=stream).tbl
        return DataFrame(table, stream)


class SemiJoin:
    def __init__(self, left, right, left_on, right_on):
        self.children = (left, right)
        self.left_on = left_on
        self.right_on = right_on

    def do_evaluate(self, left, right, context):
        stream = context.get_cuda_stream()
        join_cuda_streams(downstreams=(stream,), upstreams=(left.stream, right.stream))
        left_keys = plc.Table([left.table.columns()[self.left_on]])
        right_keys = plc.Table([right.table.columns()[self.right_on]])
        gather_map = plc.join.left_semi_join(
            left_keys, right_keys, plc.types.NullEquality.UNEQUAL, stream=stream
        )
        table = plc.copying.gather(
            left.table, gather_map, plc.copying.OutOfBoundsPolicy.DONT_CHECK, stream=stream
        )
        join_cuda_streams(downstreams=(left.stream, right.stream), upstreams=(stream,))
        return DataFrame(table, stream)

    def evaluate(self, context):
        left, right = (child.evaluate(context) for child in self.children)
        return self.do_evaluate(left, right, context)


def write(df, path):
    options = plc.io.parquet.ParquetWriterOptions.builder(
        plc.io.SinkInfo([path]), df.table
    ).build()
    plc.io.parquet.write_parquet(options, stream=df.stream)
    df.stream.synchronize()


def main(parts=16):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    context = Context()
    frames = []
    for k in range(parts):
        plan = SemiJoin(
            Scan(f"orders/{k}.parquet", ["o_orderkey", "o_orderpriority"]),
            Scan(f"lineitem/{k}.parquet", ["l_orderkey"]),
            left_on=0,
            right_on=0,
        )
        frames.append(plan.evaluate(context))
    for k, frame in enumerate(frames):
        write(frame, f"out/{k}.parquet")


if __name__ == "__main__":
    main()
