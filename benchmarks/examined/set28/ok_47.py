"""Decoder and encoder threads exchange device tiles through queues together with their events."""
import queue
import threading

import numpy as np
from numba import cuda


@cuda.jit
def decode(raw, gain, tile):
    y, x = cuda.grid(2)
    if y < tile.shape[0] and x < tile.shape[1]:
        tile[y, x] = gain * (raw[y, x] - 128.0)


@cuda.jit
def encode(tile, out):
    y, x = cuda.grid(2)
    if y < tile.shape[0] and x < tile.shape[1]:
        left = tile[y, x - 1] if x > 0 else 0.0
        out[y, x] = tile[y, x] - left


class Tile:
    def __init__(self, shape):
        self.index = -1
        self.data = cuda.device_array(shape, dtype=np.float32)
        self.filled = cuda.event(timing=False)
        self.emptied = cuda.event(timing=False)


class DecoderThread(threading.Thread):
    def __init__(self, frames, free, ready, shape):
        super().__init__()
        self.frames, self.free, self.ready = frames, free, ready
        self.shape = shape

    def run(self):
        stream = cuda.stream()
        raw = cuda.device_array(self.shape, dtype=np.uint8)
        staging = cuda.pinned_array(self.shape, dtype=np.uint8)
        grid = ((self.shape[0] + 15) // 16, (self.shape[1] + 15) // 16)
        uploaded = cuda.event(timing=False)
        cuda.synchronize()
        for index, frame in enumerate(self.frames):
            tile = self.free.get()
            uploaded.synchronize()
            staging[...] = frame
            raw.copy_to_device(staging, stream=stream)
            uploaded.record(stream)
            tile.emptied.wait(stream)
            decode[grid, (16, 16), stream](raw, np.float32(0.5), tile.data)
            tile.index = index
            tile.filled.record(stream)
            self.ready.put(tile)
        stream.synchronize()
        self.ready.put(None)


class EncoderThread(threading.Thread):
    def __init__(self, free, ready, shape):
        super().__init__()
        self.free, self.ready = free, ready
        self.shape = shape
        self.energy = {}

    def run(self):
        stream = cuda.stream()
        out = cuda.device_array(self.shape, dtype=np.float32)
        host = cuda.pinned_array(self.shape, dtype=np.float32)
        grid = ((self.shape[0] + 15) // 16, (self.shape[1] + 15) // 16)
        cuda.synchronize()
        while True:
            tile = self.ready.get()
            if tile is None:
                return
            index = tile.index
            tile.filled.wait(stream)
            encode[grid, (16, 16), stream](tile.data, out)
            tile.emptied.record(stream)
            self.free.put(tile)
            out.copy_to_host(host, stream=stream)
            stream.synchronize()
            self.energy[index] = float(np.square(host).sum())


def main(shape=(1080, 1920), count=64, depth=3):
    rng = np.random.default_rng(2)
    frames = (rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(count))
    free, ready = queue.Queue(), queue.Queue()
    for _ in range(depth):
        free.put(Tile(shape))
    decoder = DecoderThread(frames, free, ready, shape)
    encoder = EncoderThread(free, ready, shape)
    decoder.start()
    encoder.start()
    decoder.join()
    encoder.join()
    print(len(encoder.energy), encoder.energy[count - 1])


if __name__ == "__main__":
    main()
