import cupy as cp
from cupy.cuda import nccl


class DeviceGroup:
    """All local devices driven by one process."""

    def __init__(self, devices):
        self.devices = list(devices)
        self.comms = nccl.NcclCommunicator.initAll(self.devices)
        self.streams = []
        for d in self.devices:
            with cp.cuda.Device(d):
                self.streams.append(cp.cuda.Stream(non_blocking=True))

    def map(self, fn, *columns):
        results = []
        for i, d in enumerate(self.devices):
            with cp.cuda.Device(d), self.streams[i]:
                results.append(fn(*(c[i] for c in columns)))
        return results

    def allreduce(self, arrays):
        nccl.groupStart()
        for i, d in enumerate(self.devices):
            with cp.cuda.Device(d):
                a = arrays[i]
                self.comms[i].allReduce(a.data.ptr, a.data.ptr, a.size,
                                        nccl.NCCL_FLOAT32, nccl.NCCL_SUM,
                                        self.streams[i].ptr)
        nccl.groupEnd()


def local_gradient(w, x):
    return x.T @ (x @ w - 1.0)


def sgd(steps=20, dim=256):
    group = DeviceGroup(range(cp.cuda.runtime.getDeviceCount()))
    rank_ids = list(range(len(group.devices)))
    w = group.map(lambda r: cp.zeros(dim, cp.float32), rank_ids)
    x = group.map(lambda r: cp.ones((512, dim), cp.float32) * (r + 1), rank_ids)
    for _ in range(steps):
        grads = group.map(local_gradient, w, x)
        group.allreduce(grads)
        w = group.map(lambda a, g: a - cp.float32(1e-6) * g, w, grads)
    norms = group.map(lambda a: float(cp.linalg.norm(a)), w)
    return norms


if __name__ == "__main__":
    print(sgd())
