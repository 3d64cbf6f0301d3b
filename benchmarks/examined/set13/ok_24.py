import cupy as cp
from cupy.cuda import nccl

_DTYPES = {"f": nccl.NCCL_FLOAT32, "d": nccl.NCCL_FLOAT64, "e": nccl.NCCL_FLOAT16, "i": nccl.NCCL_INT32}


def sync_stream_from_to(src, dst):
    dst.wait_event(src.record(cp.cuda.Event(disable_timing=True)))


class Communicator:
    def __init__(self, comm, compute_stream):
        self.comm = comm
        self.compute_stream = compute_stream
        self.comm_stream = cp.cuda.Stream(non_blocking=True)

    def call(self, send, recv, ptr):
        raise NotImplementedError

    def _run(self, send, recv):
        sync_stream_from_to(self.compute_stream, self.comm_stream)
        self.call(send, recv, self.comm_stream.ptr)
        sync_stream_from_to(self.comm_stream, self.compute_stream)
        return recv


class AllReduce(Communicator):
    def call(self, send, recv, ptr):
        self.comm.allReduce(send.data.ptr, recv.data.ptr, send.size, _DTYPES[send.dtype.char], nccl.NCCL_SUM, ptr)

    def __call__(self, x):
        return self._run(x, x)


class AllGather(Communicator):
    def __init__(self, comm, compute_stream, world):
        super().__init__(comm, compute_stream)
        self.world = world
        self.buffers = {}

    def call(self, send, recv, ptr):
        self.comm.allGather(send.data.ptr, recv.data.ptr, send.size, _DTYPES[send.dtype.char], ptr)

    def __call__(self, x):
        key = (x.shape, x.dtype.char)
        if key not in self.buffers:
            with self.compute_stream:
                self.buffers[key] = cp.empty((self.world, *x.shape), dtype=x.dtype)
        return self._run(x, self.buffers[key])


class DiscoWorker:
    def __init__(self, rank, world, unique_id, weights):
        cp.cuda.Device(rank).use()
        self.stream = cp.cuda.Stream(non_blocking=True)
        comm = nccl.NcclCommunicator(world, unique_id, rank)
        self.all_reduce = AllReduce(comm, self.stream)
        self.all_gather = AllGather(comm, self.stream, world)
        with self.stream:
            self.w_up, self.w_down, self.w_head = [cp.asarray(w) for w in weights]

    def forward(self, x_host):
        with self.stream:
            x = cp.asarray(x_host)
            h = cp.maximum(x @ self.w_up, 0) @ self.w_down
        h = self.all_reduce(h)
        with self.stream:
            logits = cp.ascontiguousarray((x + h) @ self.w_head)
        parts = self.all_gather(logits)
        with self.stream:
            token = cp.argmax(cp.concatenate(list(parts), axis=-1), axis=-1)
            return cp.asnumpy(token)
