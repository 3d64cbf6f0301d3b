"""Generator stages, each on its own stream, handing on (array, event) pairs."""
import cupy as cp
import cupyx.scipy.ndimage as ndi
import numpy as np


class Packet:
    __slots__ = ("array", "ready", "owner", "_uses")

    def __init__(self, array, owner):
        self.array, self.owner = array, owner
        self.ready = owner.record()
        self._uses = []

    def __enter__(self):
        cp.cuda.get_current_stream().wait_event(self.ready)
        return self.array

    def __exit__(self, *exc):
        self._uses.append(cp.cuda.get_current_stream().record())

    def release(self):
        for ev in self._uses:
            self.owner.wait_event(ev)
        self.array = None


def load(frames):
    s = cp.cuda.Stream(non_blocking=True)
    for frame in frames:
        with s:
            packet = Packet(cp.asarray(frame), s)
        yield packet


def stage(fn):
    def build(source, *args):
        s = cp.cuda.Stream(non_blocking=True)
        for packet in source:
            with s:
                with packet as array:
                    result = fn(array, *args)
                del array
                out = Packet(result, s)
            packet.release()
            del result
            yield out
    return build


@stage
def background(a, size):
    return a - ndi.uniform_filter(a, size)


@stage
def edges(a):
    return ndi.sobel(a, axis=0) ** 2 + ndi.sobel(a, axis=1) ** 2


def collect(source):
    out = []
    for packet in source:
        packet.ready.synchronize()
        with packet.owner:
            out.append(packet.array.get())
    return out


if __name__ == "__main__":
    video = (np.random.rand(240, 320).astype(np.float32) for _ in range(8))
    print(len(collect(edges(background(load(video), 9)))))
