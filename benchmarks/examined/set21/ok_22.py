"""GPU process stage: copy-in, correlate and copy-out commands chained by events."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np

_corr = cp.RawKernel(
    r"""
extern "C" __global__ void correlate(const float* in, float* out, int n, int nt) {
    int i = blockIdx.x, j = threadIdx.x;
    if (j > i) return;
    float acc = 0.f;
    for (int t = 0; t < nt; ++t) acc += in[t * n + i] * in[t * n + j];
    out[i * n + j] = acc;
}
""",
    "correlate",
)


class DeviceInterface:
    """Streams of one GPU and per-frame device memory, addressed by frame id."""

    def __init__(self, depth, n, nt):
        self.depth, self.n, self.nt = depth, n, nt
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
        self.voltage = [cp.zeros((nt, n), dtype=cp.float32) for _ in range(depth)]
        self.corr = [cp.zeros((n, n), dtype=cp.float32) for _ in range(depth)]
        cp.cuda.Device().synchronize()


class Command:
    stream_id = 0

    def __init__(self, device):
        self.device = device

    @property
    def stream(self):
        return self.device.streams[self.stream_id]

    def execute(self, frame, pre_event):
        if pre_event is not None:
            self.stream.wait_event(pre_event)
        self.enqueue(frame)
        return self.stream.record()


class CopyIn(Command):
    stream_id = 0

    def __init__(self, device, host_frames):
        super().__init__(device)
        self.host_frames = host_frames

    def enqueue(self, frame):
        self.device.voltage[frame].set(self.host_frames[frame], stream=self.stream)


class Correlate(Command):
    stream_id = 1

    def enqueue(self, frame):
        d = self.device
        with self.stream:
            _corr((d.n,), (d.n,), (d.voltage[frame], d.corr[frame], d.n, d.nt))


class CopyOut(Command):
    stream_id = 2

    def __init__(self, device, host_frames):
        super().__init__(device)
        self.host_frames = host_frames

    def enqueue(self, frame):
        self.device.corr[frame].get(stream=self.stream, out=self.host_frames[frame], blocking=False)


def main_loop(packets, emit, depth=3, n=128, nt=512):
    device = DeviceInterface(depth, n, nt)
    in_frames = [cupyx.zeros_pinned((nt, n), dtype=np.float32) for _ in range(depth)]
    out_frames = [cupyx.zeros_pinned((n, n), dtype=np.float32) for _ in range(depth)]
    commands = [CopyIn(device, in_frames), Correlate(device), CopyOut(device, out_frames)]
    pending = deque()

    def finalize_oldest():
        frame, seq, done = pending.popleft()
        done.synchronize()
        emit(seq, out_frames[frame].copy())

    for seq, packet in enumerate(packets):
        frame = seq % depth
        if len(pending) == depth:
            finalize_oldest()
        np.copyto(in_frames[frame], packet)
        event = None
        for command in commands:
            event = command.execute(frame, event)
        pending.append((frame, seq, event))
    while pending:
        finalize_oldest()
