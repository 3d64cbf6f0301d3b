"""Event delivery for GPU detectors: slots, automatic host copies and user streams."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np

_gather = cp.RawKernel(
    r"""
extern "C" __global__ void gather(const unsigned short* payload, const long long* offsets,
                                  const float* ped, float* out, int npix) {
    int seg = blockIdx.y, p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < npix) out[seg * npix + p] = payload[offsets[seg] + p] - ped[seg * npix + p];
}
""",
    "gather",
)


class Slot:
    def __init__(self, payload_len, nseg, npix):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.payload_host = cupyx.empty_pinned(payload_len, dtype=np.uint16)
        self.offsets_host = cupyx.empty_pinned(nseg, dtype=np.int64)
        self.payload = cp.empty(payload_len, dtype=cp.uint16)
        self.offsets = cp.empty(nseg, dtype=cp.int64)
        self.image = cp.empty((nseg, npix), dtype=cp.float32)
        self.image_host = cupyx.empty_pinned((nseg, npix), dtype=np.float32)
        self.computed = None
        self.leases = []

    def wait_until_safe_to_reuse(self):
        self.computed.synchronize()
        for event in self.leases:
            event.synchronize()
        self.leases = []


class EventEnvelope:
    def __init__(self, index, slot):
        self.index = index
        self._slot = slot

    def on_gpu_view(self, stream):
        """The slot's own image, valid on ``stream`` until ``done`` is called."""
        stream.wait_event(self._slot.computed)
        return self._slot.image

    def done(self, stream):
        self._slot.leases.append(stream.record())

    def on_cpu(self):
        """A host copy of the image."""
        slot = self._slot
        slot.image.get(stream=slot.stream, out=slot.image_host, blocking=False)
        slot.stream.synchronize()
        return slot.image_host.copy()


class GPUDetector:
    def __init__(self, pedestal, payload_len, pool_depth=3):
        self.nseg, self.npix = pedestal.shape
        self.pedestal = cp.asarray(pedestal.astype(np.float32))
        cp.cuda.Device().synchronize()
        self.free = deque(Slot(payload_len, self.nseg, self.npix) for _ in range(pool_depth))
        self.inflight = deque()

    def _submit(self, index, payload, offsets):
        slot = self.free.popleft()
        slot.payload_host[: payload.size] = payload
        slot.offsets_host[:] = offsets
        slot.payload.set(slot.payload_host, stream=slot.stream)
        slot.offsets.set(slot.offsets_host, stream=slot.stream)
        with slot.stream:
            _gather(((self.npix + 255) // 256, self.nseg), (256,),
                    (slot.payload, slot.offsets, self.pedestal, slot.image, self.npix))
        slot.computed = slot.stream.record()
        self.inflight.append(EventEnvelope(index, slot))

    def events(self, source):
        source = iter(source)
        index = 0
        exhausted = False
        while True:
            while self.free and not exhausted:
                item = next(source, None)
                if item is None:
                    exhausted = True
                    break
                self._submit(index, *item)
                index += 1
            if not self.inflight:
                return
            envelope = self.inflight.popleft()
            yield envelope
            envelope._slot.wait_until_safe_to_reuse()
            self.free.append(envelope._slot)


def mean_and_first(detector, source):
    user = cp.cuda.Stream(non_blocking=True)
    with user:
        total = cp.zeros((detector.nseg, detector.npix), dtype=cp.float32)
    first, count = None, 0
    for event in detector.events(source):
        if first is None:
            first = event.on_cpu()
        view = event.on_gpu_view(user)
        with user:
            total += view
        event.done(user)
        count += 1
    return total.get(stream=user) / count, first
