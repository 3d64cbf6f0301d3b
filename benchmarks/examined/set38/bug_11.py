"""Tree reduction of per-device partial matrices."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np

NUM_DEVICES = cp.cuda.runtime.getDeviceCount()


class DeviceContext:
    def __init__(self, device_id):
        self.device_id = device_id
        with cp.cuda.Device(device_id):
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.blas_buf = None

    def scratch(self, shape, dtype):
        if self.blas_buf is None or self.blas_buf.shape != shape:
            with cp.cuda.Device(self.device_id), self.stream:
                self.blas_buf = cp.empty(shape, dtype=dtype)
        return self.blas_buf


_contexts = {}


def context(device_id):
    if device_id not in _contexts:
        _contexts[device_id] = DeviceContext(device_id)
    return _contexts[device_id]


def enable_peers():
    for i in range(NUM_DEVICES):
        with cp.cuda.Device(i):
            for j in range(NUM_DEVICES):
                if i != j and cp.cuda.runtime.deviceCanAccessPeer(i, j):
                    cp.cuda.runtime.deviceEnablePeerAccess(j)


def p2p_transfer(dst, src):
    d, s = dst.device.id, src.device.id
    with cp.cuda.Device(s):
        cp.cuda.runtime.memcpyPeerAsync(
            dst.data.ptr, d, src.data.ptr, s, src.nbytes, context(s).stream.ptr)
    return dst


def array_reduce(parts):
    alive = dict(enumerate(parts))
    step = 1
    while step < NUM_DEVICES:
        for dst_id in range(0, NUM_DEVICES, 2 * step):
            src_id = dst_id + step
            if src_id not in alive:
                continue
            src = alive.pop(src_id)
            ctx = context(dst_id)
            buf = ctx.scratch(src.shape, src.dtype)
            p2p_transfer(buf, src)
            with cp.cuda.Device(dst_id), ctx.stream:
                alive[dst_id] += buf
            ctx.stream.synchronize()
            context(src_id).stream.synchronize()
        step *= 2
    return alive[0]


def build_jk(device_id, dm, nblocks):
    ctx = context(device_id)
    with cp.cuda.Device(device_id), ctx.stream:
        local = cp.asarray(dm)
        out = cp.zeros_like(local)
        for k in range(device_id, nblocks, NUM_DEVICES):
            out += local @ local.T * np.float64(1.0 / (k + 1))
    ctx.stream.synchronize()
    return out


def run(dm, nblocks=32):
    with ThreadPoolExecutor(max_workers=NUM_DEVICES) as ex:
        futures = [ex.submit(build_jk, i, dm, nblocks) for i in range(NUM_DEVICES)]
        parts = [f.result() for f in futures]
    vj = array_reduce(parts)
    with cp.cuda.Device(0), context(0).stream:
        return cp.asnumpy(vj)


def main():
    enable_peers()
    rng = np.random.default_rng(0)
    dm = rng.standard_normal((2048, 2048))
    vj = run(dm + dm.T)
    print(NUM_DEVICES, np.linalg.norm(vj))


if __name__ == "__main__":
    main()
