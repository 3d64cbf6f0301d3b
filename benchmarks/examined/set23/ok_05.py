"""Prefix cache connector with separate load and store streams."""
import torch


class OffloadConnector:
    def __init__(self, kv_cache, max_chunks):
        self.kv_cache = kv_cache
        block_shape = tuple(kv_cache.shape[1:])
        self.host = torch.empty((max_chunks, *block_shape), dtype=kv_cache.dtype, pin_memory=True)
        self.load_stream = torch.cuda.Stream()
        self.store_stream = torch.cuda.Stream()
        self.load_done = torch.cuda.Event()
        self.store_done = torch.cuda.Event()
        self.index = {}
        self.free_chunks = list(range(max_chunks))

    def start_load(self, pairs):
        """pairs: (chunk hash, destination block)."""
        if not pairs:
            return
        self.load_stream.wait_event(self.store_done)
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            for chunk_hash, block in pairs:
                self.kv_cache[block].copy_(self.host[self.index[chunk_hash]], non_blocking=True)
            self.load_done.record()

    def wait_for_load(self):
        torch.cuda.current_stream().wait_event(self.load_done)

    def start_store(self, pairs):
        pairs = [(h, b) for h, b in pairs if h not in self.index]
        if not pairs:
            return
        self.store_stream.wait_event(self.load_done)
        self.store_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.store_stream):
            for chunk_hash, block in pairs:
                chunk = self.free_chunks.pop()
                self.index[chunk_hash] = chunk
                self.host[chunk].copy_(self.kv_cache[block], non_blocking=True)
            self.store_done.record()

    def wait_before_overwrite(self):
        torch.cuda.current_stream().wait_event(self.store_done)


class Scheduler:
    def __init__(self, num_blocks):
        self.free = list(range(num_blocks))
        self.resident = {}
        self.order = []

    def assign(self, hashes):
        missing = [h for h in hashes if h not in self.resident]
        while len(self.free) < len(missing):
            for victim in self.order:
                if victim not in hashes:
                    break
            self.order.remove(victim)
            self.free.append(self.resident.pop(victim))
        for h in missing:
            self.resident[h] = self.free.pop()
            self.order.append(h)
        return [(h, self.resident[h]) for h in hashes], missing


class Engine:
    def __init__(self, num_blocks=64, block_tokens=128, dim=1024):
        self.kv_cache = torch.zeros(num_blocks, block_tokens, dim, device="cuda", dtype=torch.half)
        self.weight = torch.randn(dim, dim, device="cuda", dtype=torch.half) / dim ** 0.5
        self.scheduler = Scheduler(num_blocks)
        self.connector = OffloadConnector(self.kv_cache, max_chunks=1024)

    def step(self, hashes, embeds):
        table, missing = self.scheduler.assign(hashes)
        where = dict(table)
        load = [(h, where[h]) for h in missing if h in self.connector.index]
        compute = [(h, where[h]) for h in missing if h not in self.connector.index]
        self.connector.wait_before_overwrite()
        self.connector.start_load(load)
        for h, block in compute:
            x = embeds[h].to("cuda", non_blocking=True)
            self.kv_cache[block].copy_(torch.tanh(x @ self.weight))
        self.connector.wait_for_load()
        blocks = torch.stack([self.kv_cache[b] for _, b in table])
        score = torch.softmax(blocks.float().mean((1, 2)), 0)
        self.connector.start_store(compute)
        return score


def main():
    engine = Engine()
    embeds = [torch.randn(128, 1024).half().pin_memory() for _ in range(200)]
    for step in range(100):
        hashes = [0, 1, 2] + [3 + (step * 7 + i) % 197 for i in range(12)]
        print(engine.step(hashes, embeds).argmax().item())


if __name__ == "__main__":
    main()
