import threading

import cupy
import torch


class HostBlock:
    def __init__(self, shape):
        self.data = torch.empty(shape, dtype=torch.float16, pin_memory=True)
        self.readers = 0
        self.readable = False


class BlockTable:
    def __init__(self, count, shape):
        self._cond = threading.Condition()
        self._free = [HostBlock(shape) for _ in range(count)]
        self._blocks = {}

    def begin_write(self, key):
        with self._cond:
            while not self._free:
                for old, block in list(self._blocks.items()):
                    if block.readable and block.readers == 0:
                        del self._blocks[old]
                        block.readable = False
                        self._free.append(block)
                        break
                else:
                    self._cond.wait()
            block = self._blocks[key] = self._free.pop()
            return block

    def finish_write(self, block):
        with self._cond:
            block.readable = True
            self._cond.notify_all()

    def begin_read(self, key):
        with self._cond:
            block = self._blocks.get(key)
            if block is None:
                return None
            self._cond.wait_for(lambda: block.readable)
            block.readers += 1
            return block

    def finish_read(self, block):
        with self._cond:
            block.readers -= 1
            self._cond.notify_all()


class KvStore:
    def __init__(self, table):
        self.table = table
        self.stream = torch.cuda.Stream()
        self.callbacks = cupy.cuda.ExternalStream(self.stream.cuda_stream, self.stream.device.index)

    def store(self, key, kv):
        block = self.table.begin_write(key)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            block.data.copy_(kv, non_blocking=True)
        kv.record_stream(self.stream)
        self.callbacks.launch_host_func(self.table.finish_write, block)

    def retrieve(self, key, kv):
        block = self.table.begin_read(key)
        if block is None:
            return False
        model = torch.cuda.current_stream()
        self.stream.wait_stream(model)
        with torch.cuda.stream(self.stream):
            kv.copy_(block.data, non_blocking=True)
        self.callbacks.launch_host_func(self.table.finish_read, block)
        model.wait_stream(self.stream)
        return True


@torch.no_grad()
def main(rounds=64, shape=(2, 256, 1024)):
    store = KvStore(BlockTable(8, shape))
    work = torch.zeros(shape, dtype=torch.float16, device="cuda")
    hits, total = 0, torch.zeros((), device="cuda")
    for i in range(rounds):
        store.store(f"chunk{i % 12}-{i}", torch.full(shape, float(i), dtype=torch.float16, device="cuda"))
        if store.retrieve(f"chunk{(i - 3) % 12}-{i - 3}", work):
            hits += 1
            total += work.float().mean()
    return hits, total.item()
