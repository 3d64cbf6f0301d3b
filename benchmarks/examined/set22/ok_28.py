"""Buffers that carry the event of their latest write, spilled between device and host."""
import cupy as cp
import cupyx


class Buffer:
    def __init__(self, storage, event):
        self.storage = storage
        self.event = event

    @property
    def on_device(self):
        return isinstance(self.storage, cp.ndarray)

    def is_ready(self):
        return self.event is None or self.event.done

    def host_wait(self):
        if self.event is not None:
            self.event.synchronize()


class BufferResource:
    def __init__(self):
        self.spill_stream = cp.cuda.Stream(non_blocking=True)

    def to_host(self, buf):
        src = buf.storage
        dst = cupyx.empty_pinned(src.shape, src.dtype)
        if buf.event is not None:
            self.spill_stream.wait_event(buf.event)
        src.get(stream=self.spill_stream, out=dst, blocking=False)
        event = self.spill_stream.record()
        event.synchronize()
        return Buffer(dst, None)

    def to_device(self, buf, stream):
        buf.host_wait()
        src = buf.storage
        with stream:
            dst = cp.empty(src.shape, src.dtype)
            dst.set(src, stream=stream)
        event = stream.record()
        return Buffer(dst, event), src


def make_buffer(stream, n, value):
    with stream:
        data = cp.full((n,), value, cp.float32)
        cp.sqrt(data, out=data)
    return Buffer(data, stream.record())


def main():
    br = BufferResource()
    work = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    held = [make_buffer(work[i % 2], 1 << 20, float(i * i)) for i in range(6)]
    spilled = [br.to_host(b) for b in held]
    held.clear()
    restored = []
    keep = []
    for i, b in enumerate(spilled):
        dev, src = br.to_device(b, work[i % 2])
        restored.append(dev)
        keep.append(src)
    total = cp.cuda.Stream(non_blocking=True)
    for b in restored:
        total.wait_event(b.event)
    with total:
        means = [b.storage.mean() for b in restored]
    total.synchronize()
    keep.clear()
    assert [round(float(m.get())) for m in means] == list(range(6))


if __name__ == "__main__":
    main()
