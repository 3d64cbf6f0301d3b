"""KV write-back by a background thread; device blocks return to the free list on acknowledgement."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class WriteOp:
    node: int
    blocks: list
    produced: torch.cuda.Event


class WriteBackCache:
    def __init__(self, num_blocks, block_elems):
        self.device = torch.zeros(num_blocks, block_elems, device="cuda")
        self.mirror = torch.zeros(num_blocks, block_elems).pin_memory()
        self.free = list(range(num_blocks))
        self.stored = {}
        self.requests = queue.Queue()
        self.acks = queue.Queue()
        self.pending = 0
        self.write_stream = torch.cuda.Stream()
        self.worker = threading.Thread(target=self._write_loop, daemon=True)
        self.worker.start()

    def allocate(self, n):
        while len(self.free) < n:
            self._take_ack(self.acks.get())
        taken, self.free = self.free[:n], self.free[n:]
        return taken

    def write_back(self, node, blocks):
        produced = torch.cuda.Event()
        produced.record()
        self.pending += 1
        self.requests.put(WriteOp(node, blocks, produced))

    def _write_loop(self):
        with torch.cuda.stream(self.write_stream):
            for op in iter(self.requests.get, None):
                self.write_stream.wait_event(op.produced)
                for b in op.blocks:
                    self.mirror[b].copy_(self.device[b], non_blocking=True)
                self.write_stream.synchronize()
                self.acks.put(op)

    def _take_ack(self, op):
        self.stored[op.node] = torch.stack([self.mirror[b] for b in op.blocks])
        self.free.extend(op.blocks)
        self.pending -= 1

    def poll(self):
        while True:
            try:
                op = self.acks.get_nowait()
            except queue.Empty:
                return
            self._take_ack(op)

    def close(self):
        while self.pending:
            self._take_ack(self.acks.get())
        self.requests.put(None)
        self.worker.join()


def main():
    cache = WriteBackCache(num_blocks=32, block_elems=1 << 16)
    state = torch.randn(1 << 16, device="cuda")
    for node in range(100):
        blocks = cache.allocate(4)
        for b in blocks:
            state = torch.sin(state * 1.01)
            cache.device[b].copy_(state)
        cache.write_back(node, blocks)
        cache.poll()
    cache.close()
    print(len(cache.stored), cache.stored[99].mean().item())


if __name__ == "__main__":
    main()
