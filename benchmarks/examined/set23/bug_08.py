"""Ring reduction of per-GPU partial results through peer copies."""
import cupy as cp
from cupy.cuda import runtime


class RingContext:
    def __init__(self, device, max_elems, world):
        self.device = device
        with cp.cuda.Device(device):
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.copy = cp.cuda.Stream(non_blocking=True)
            chunk = (max_elems + world - 1) // world
            self.tmp = cp.empty(chunk, dtype=cp.float32)
            self.ready = cp.cuda.Event(disable_timing=True)
            self.copied = cp.cuda.Event(disable_timing=True)
            cp.cuda.Device().synchronize()


class RingReducer:
    def __init__(self, devices, max_elems):
        self.devices = devices
        self.world = len(devices)
        self.ctx = [RingContext(d, max_elems, self.world) for d in devices]
        for d in devices:
            with cp.cuda.Device(d):
                for peer in devices:
                    if peer != d and runtime.deviceCanAccessPeer(d, peer):
                        runtime.deviceEnablePeerAccess(peer)

    def _bounds(self, n):
        step = (n + self.world - 1) // self.world
        return [(min(i * step, n), min((i + 1) * step, n)) for i in range(self.world)]

    def _send(self, i, chunk):
        src, dst = self.ctx[i], self.ctx[(i + 1) % self.world]
        with cp.cuda.Device(src.device):
            src.copy.wait_event(src.ready)
            runtime.memcpyPeerAsync(
                dst.tmp.data.ptr, dst.device, chunk.data.ptr, src.device, chunk.nbytes, src.copy.ptr
            )
            src.copied.record(src.copy)

    def _receive(self, j, chunk, accumulate):
        prev, dst = self.ctx[(j - 1) % self.world], self.ctx[j]
        with cp.cuda.Device(dst.device), dst.compute:
            dst.compute.wait_event(prev.copied)
            tmp = dst.tmp[:chunk.size]
            if accumulate:
                cp.add(chunk, tmp, out=chunk)
            else:
                cp.copyto(chunk, tmp)
            dst.ready.record(dst.compute)

    def all_reduce(self, parts):
        bounds = self._bounds(parts[0].size)
        for ctx in self.ctx:
            with cp.cuda.Device(ctx.device):
                ctx.ready.record(ctx.compute)
        for phase in ("reduce", "gather"):
            shift = 0 if phase == "reduce" else 1
            for step in range(self.world - 1):
                for i in range(self.world):
                    lo, hi = bounds[(i + shift - step) % self.world]
                    self._send(i, parts[i][lo:hi])
                for j in range(self.world):
                    lo, hi = bounds[(j - 1 + shift - step) % self.world]
                    self._receive(j, parts[j][lo:hi], accumulate=phase == "reduce")


class SplitLinear:
    """Row-parallel matmul; every device holds a slice of the inner dimension."""

    def __init__(self, reducer, in_features, out_features):
        self.reducer = reducer
        self.weights = []
        per_device = in_features // reducer.world
        for ctx in reducer.ctx:
            with cp.cuda.Device(ctx.device), ctx.compute:
                self.weights.append(cp.random.standard_normal((per_device, out_features), dtype=cp.float32))

    def __call__(self, inputs):
        parts = []
        for ctx, x, w in zip(self.reducer.ctx, inputs, self.weights):
            with cp.cuda.Device(ctx.device), ctx.compute:
                parts.append(cp.matmul(x, w).ravel())
        self.reducer.all_reduce(parts)
        return parts


def main(batch=512, features=8192, layers=16):
    devices = list(range(runtime.getDeviceCount()))
    reducer = RingReducer(devices, batch * features)
    linear = SplitLinear(reducer, features, features)
    per_device = features // len(devices)
    inputs = []
    for ctx in reducer.ctx:
        with cp.cuda.Device(ctx.device), ctx.compute:
            inputs.append(cp.ones((batch, per_device), dtype=cp.float32))
    outputs = [linear(inputs) for _ in range(layers)]
    for ctx in reducer.ctx:
        ctx.copy.synchronize()
        ctx.compute.synchronize()
    print([float(out[0][0]) for out in outputs])


if __name__ == "__main__":
    main()
