from collections import OrderedDict

import torch


class SwappingKVCache:
    """Paged KV cache whose blocks move between device and pinned host memory."""

    def __init__(self, device_blocks, host_blocks, block_shape, dtype=torch.float16, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.gpu = torch.zeros(device_blocks, *block_shape, dtype=dtype, device=self.device)
        self.cpu = torch.zeros(host_blocks, *block_shape, dtype=dtype, pin_memory=True)
        self.swap = torch.cuda.Stream(self.device)
        self.swap.wait_stream(torch.cuda.current_stream(self.device))
        self.gpu.record_stream(self.swap)
        self.gpu_free = list(range(device_blocks))
        self.cpu_free = list(range(host_blocks))
        self.table = OrderedDict()
        self.moving = {}

    def _settle(self, block):
        event = self.moving.pop(block, None)
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)

    def _take_gpu(self):
        if not self.gpu_free:
            victim = next((key for key, (kind, _) in self.table.items() if kind == "gpu"), None)
            if victim is None:
                raise MemoryError("no block to evict")
            self.swap_out(victim)
        return self.gpu_free.pop(0)

    def swap_out(self, key):
        kind, block = self.table[key]
        if kind == "cpu":
            return
        if not self.cpu_free:
            raise MemoryError("host cache is full")
        slot = self.cpu_free.pop()
        self.swap.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.swap):
            self.cpu[slot].copy_(self.gpu[block], non_blocking=True)
            self.moving[block] = self.swap.record_event()
        self.gpu_free.append(block)
        self.table[key] = ("cpu", slot)

    def swap_in(self, key):
        kind, slot = self.table[key]
        if kind == "gpu":
            return
        block = self._take_gpu()
        self.swap.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.swap):
            self.gpu[block].copy_(self.cpu[slot], non_blocking=True)
            self.moving[block] = self.swap.record_event()
        self.cpu_free.append(slot)
        self.table[key] = ("gpu", block)

    def write(self, key, value):
        if key not in self.table:
            self.table[key] = ("gpu", self._take_gpu())
        else:
            self.swap_in(key)
        block = self.table[key][1]
        self._settle(block)
        self.gpu[block].copy_(value)
        self.table.move_to_end(key)

    def gather(self, keys):
        parts = []
        for key in keys:
            self.swap_in(key)
            block = self.table[key][1]
            self._settle(block)
            parts.append(self.gpu[block].clone())
            self.table.move_to_end(key)
        return torch.stack(parts)

    def drop(self, key):
        kind, index = self.table.pop(key)
        (self.gpu_free if kind == "gpu" else self.cpu_free).append(index)


def main():
    cache = SwappingKVCache(4, 32, (2, 16, 8, 64))
    for key in range(12):
        cache.write(key, torch.full((2, 16, 8, 64), float(key), device="cuda", dtype=torch.float16))
    cache.swap_in(3)
    cache.drop(5)
    cache.write(40, torch.full((2, 16, 8, 64), 40.0, device="cuda", dtype=torch.float16))
    order = [0, 11, 3, 7, 40, 1]
    print(cache.gather(order).float().mean(dim=(1, 2, 3, 4)).tolist())
    cache.write(7, torch.zeros(2, 16, 8, 64, device="cuda", dtype=torch.float16))
    print(cache.gather([7, 2, 7]).float().mean(dim=(1, 2, 3, 4)).tolist())


if __name__ == "__main__":
    main()
