"""Layers of one model spread over two GPUs; activations cross by peer copies."""
import cupy as cp
import numpy as np


class DeviceLane:
    """A device with one compute stream and an event for each published tensor."""

    def __init__(self, device_id):
        self.device_id = device_id
        with cp.cuda.Device(device_id):
            self.stream = cp.cuda.Stream(non_blocking=True)

    def record(self):
        with cp.cuda.Device(self.device_id):
            return self.stream.record()

    def wait(self, event):
        with cp.cuda.Device(self.device_id):
            self.stream.wait_event(event)


class Slice:
    """Persistent device buffer owned by one lane."""

    def __init__(self, lane, shape):
        self.lane = lane
        with cp.cuda.Device(lane.device_id), lane.stream:
            self.array = cp.zeros(shape, dtype=cp.float32)

    def clone_peer(self, dst):
        src_lane, dst_lane = self.lane, dst.lane
        dst_lane.wait(src_lane.record())
        with cp.cuda.Device(dst_lane.device_id):
            cp.cuda.runtime.memcpyPeerAsync(
                dst.array.data.ptr, dst_lane.device_id,
                self.array.data.ptr, src_lane.device_id,
                self.array.nbytes, dst_lane.stream.ptr)
        src_lane.wait(dst_lane.record())


class Linear:
    def __init__(self, lane, weight):
        self.lane = lane
        with cp.cuda.Device(lane.device_id), lane.stream:
            self.weight = cp.asarray(weight)
        lane.stream.synchronize()

    def __call__(self, x, out):
        with cp.cuda.Device(self.lane.device_id), self.lane.stream:
            cp.matmul(x.array, self.weight, out=out.array)
            cp.maximum(out.array, 0, out=out.array)


class TwoGpuModel:
    """First half on one lane, second half on the other."""

    def __init__(self, weights, batch):
        self.front, self.back = DeviceLane(0), DeviceLane(1)
        half = len(weights) // 2
        self.front_layers = [Linear(self.front, w) for w in weights[:half]]
        self.back_layers = [Linear(self.back, w) for w in weights[half:]]
        dim = weights[0].shape[0]
        self.front_acts = [Slice(self.front, (batch, dim)) for _ in range(2)]
        self.back_acts = [Slice(self.back, (batch, dim)) for _ in range(2)]

    def _chain(self, layers, acts):
        cur = 0
        for layer in layers:
            layer(acts[cur], acts[1 - cur])
            cur = 1 - cur
        return acts[cur]

    def forward(self, batch):
        with cp.cuda.Device(0):
            self.front_acts[0].array.set(np.ascontiguousarray(batch, dtype=np.float32), stream=self.front.stream)
        mid = self._chain(self.front_layers, self.front_acts)
        mid.clone_peer(self.back_acts[0])
        return self._chain(self.back_layers, self.back_acts)

    def run(self, batches):
        results = []
        for batch in batches:
            out = self.forward(batch)
            with cp.cuda.Device(1):
                results.append(out.array.get(stream=self.back.stream))
        return results
