"""Latest-frame triple buffer on the GPU."""
import threading
import numpy as np
import cupy as cp
import cupyx


class FrameBuffer:
    def __init__(self, shape):
        self.data = cp.zeros(shape, dtype=cp.uint8)
        self.written = cp.cuda.Event(disable_timing=True)
        self.read = cp.cuda.Event(disable_timing=True)
        self.seq = -1


class TripleBuffer:
    def __init__(self, shape):
        self.back, self.latest, self.front = (FrameBuffer(shape) for _ in range(3))
        self.lock = threading.Lock()
        self.fresh = threading.Event()
        cp.cuda.Device().synchronize()

    def publish(self, stream, seq):
        self.back.seq = seq
        self.back.written.record(stream)
        with self.lock:
            self.back, self.latest = self.latest, self.back
            self.fresh.set()

    def acquire(self, stream):
        self.fresh.wait()
        with self.lock:
            self.fresh.clear()
            self.front, self.latest = self.latest, self.front
        stream.wait_event(self.front.written)
        return self.front


class CaptureThread(threading.Thread):
    def __init__(self, buffers, shape, nframes):
        super().__init__(daemon=True)
        self.buffers = buffers
        self.nframes = nframes
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.grabbed = cupyx.empty_pinned(shape, dtype=np.uint8)

    def run(self):
        for seq in range(self.nframes):
            self.stream.synchronize()
            self.grabbed[...] = seq & 0xFF
            back = self.buffers.back
            self.stream.wait_event(back.read)
            back.data.set(self.grabbed, stream=self.stream)
            self.buffers.publish(self.stream, seq)


def main(shape=(1080, 1920, 4), nframes=500):
    buffers = TripleBuffer(shape)
    camera = CaptureThread(buffers, shape, nframes)
    stream = cp.cuda.Stream(non_blocking=True)
    camera.start()
    last = -1
    while last < nframes - 1:
        frame = buffers.acquire(stream)
        with stream:
            gray = frame.data[..., :3].mean(axis=2)
            frame.read.record(stream)
            level = float(gray.max())
        assert level == (frame.seq & 0xFF)
        last = frame.seq
    camera.join()
    print("last frame", last)


if __name__ == "__main__":
    main()
