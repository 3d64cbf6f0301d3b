import collections

import torch


class Grave:
    def __init__(self, buffer, events):
        self.buffer, self.events = buffer, events

    def cold(self):
        return all(e.query() for e in self.events)


class Graveyard:
    def __init__(self, on_cold):
        self.graves = []
        self.on_cold = on_cold

    def bury(self, buffer, streams):
        self.graves.append(Grave(buffer, [s.record_event() for s in streams]))

    def sweep(self, force=False):
        alive = []
        for grave in self.graves:
            if force:
                for e in grave.events:
                    e.synchronize()
            if grave.cold():
                self.on_cold(grave.buffer)
            else:
                alive.append(grave)
        self.graves = alive


class BufferPool:
    def __init__(self, count, shape):
        self.free = collections.deque(torch.zeros(shape, device="cuda") for _ in range(count))
        torch.cuda.synchronize()
        self.graveyard = Graveyard(self.free.append)

    def acquire(self):
        self.graveyard.sweep()
        if not self.free:
            self.graveyard.sweep(force=True)
        return self.free.popleft()


class Request:
    def __init__(self, pool, streams):
        self.pool, self.streams = pool, streams
        self.buffer = pool.acquire()

    def run(self, x):
        encode, decode = self.streams
        with torch.cuda.stream(encode):
            self.buffer.copy_(x, non_blocking=True)
            self.buffer.mul_(2)
        decode.wait_stream(encode)
        with torch.cuda.stream(decode):
            return self.buffer.sum(-1).relu_()

    def cancel(self):
        buffer, self.buffer = self.buffer, None
        self.pool.graveyard.bury(buffer, self.streams)


def main(steps=100):
    pool = BufferPool(3, (64, 1024))
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    data = [torch.randn(64, 1024).pin_memory() for _ in range(4)]
    outs = []
    for i in range(steps):
        request = Request(pool, streams)
        try:
            outs.append(request.run(data[i % 4]))
        finally:
            request.cancel()
    streams[1].synchronize()
    return torch.stack(outs).mean().item()


if __name__ == "__main__":
    print(main())
