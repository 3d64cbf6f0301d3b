"""Decoder thread and analysis thread exchanging CuPy frames with events."""
import queue
import threading

import cupy as cp
import numpy as np

SHAPE = (720, 1280)


class FrameExchange:
    def __init__(self, depth=4):
        self.vacant = queue.Queue()
        self.filled = queue.Queue()
        for _ in range(depth):
            self.vacant.put((cp.empty(SHAPE, cp.uint8), None))
        cp.cuda.Device().synchronize()


def decode(exchange, count, device=0):
    cp.cuda.Device(device).use()
    stream = cp.cuda.Stream(non_blocking=True)
    rng = np.random.default_rng(11)
    with stream:
        for _ in range(count):
            frame, released = exchange.vacant.get()
            if released is not None:
                stream.wait_event(released)
            frame[...] = cp.asarray(rng.integers(0, 255, SHAPE, dtype=np.uint8))
            exchange.filled.put((frame, stream.record()))
        exchange.filled.put(None)
        stream.synchronize()


def analyse(exchange, results, device=0):
    cp.cuda.Device(device).use()
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        background = cp.zeros(SHAPE, cp.float32)
        while True:
            item = exchange.filled.get()
            if item is None:
                break
            frame, ready = item
            stream.wait_event(ready)
            background *= 0.95
            background += frame * np.float32(0.05)
            moving = cp.abs(frame - background) > 30
            exchange.vacant.put((frame, stream.record()))
            results.append(int(moving.sum()))


def main():
    exchange, results = FrameExchange(), []
    threads = [threading.Thread(target=decode, args=(exchange, 300)),
               threading.Thread(target=analyse, args=(exchange, results))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(np.mean(results))


if __name__ == "__main__":
    main()
