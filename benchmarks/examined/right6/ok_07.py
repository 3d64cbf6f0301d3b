import queue
import threading

import cupy as cp


class Producer(threading.Thread):
    """Fills device blocks handed back by the consumer."""

    def __init__(self, count, depth, size):
        super().__init__(daemon=True)
        self.count = count
        self.size = size
        self.ready = queue.Queue()
        self.free = queue.Queue()
        for _ in range(depth):
            self.free.put((None, None))

    def run(self):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            for step in range(self.count):
                block, released = self.free.get()
                if block is None:
                    block = cp.empty(self.size, cp.float32)
                else:
                    stream.wait_event(released)
                cp.arange(step, step + self.size, dtype=cp.float32).sum(out=block[:1].reshape(()))
                block[1:] = block[0] / self.size
                self.ready.put((block, stream.record()))
            stream.synchronize()
        self.ready.put(None)


def consume(producer):
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        total = cp.zeros((), cp.float64)
        while True:
            item = producer.ready.get()
            if item is None:
                break
            block, filled = item
            stream.wait_event(filled)
            total += block.sum(dtype=cp.float64)
            producer.free.put((block, stream.record()))
        value = float(total)
    producer.join()
    return value


if __name__ == "__main__":
    worker = Producer(count=50, depth=4, size=1 << 18)
    worker.start()
    print(consume(worker))
