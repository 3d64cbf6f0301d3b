"""Disaggregated serving, generation side: blocks are admitted, partly reused and then received."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class Destination:
    request_id: int
    block: int
    ready: threading.Event


class BlockPool:
    def __init__(self, num_blocks, block_elems, device="cuda"):
        self.data = torch.zeros(num_blocks, block_elems, dtype=torch.float16, device=device)
        self.unused = list(range(num_blocks))
        torch.cuda.synchronize()

    def take(self):
        return self.unused.pop()


class KVCacheManager:
    def __init__(self, pool: BlockPool, tokens_per_block, elems_per_token):
        self.pool = pool
        self.tokens_per_block = tokens_per_block
        self.elems_per_token = elems_per_token
        self.cache_stream = torch.cuda.Stream()
        self.prefixes: dict[tuple, int] = {}

    def remember(self, tokens, block):
        self.prefixes[tuple(tokens)] = block

    def _longest_match(self, tokens):
        for n in range(len(tokens), 0, -1):
            block = self.prefixes.get(tuple(tokens[:n]))
            if block is not None:
                return block, n
        return None, 0

    def admit(self, tokens):
        block = self.pool.take()
        source, matched = self._longest_match(tokens)
        if source is not None:
            n = matched * self.elems_per_token
            self.cache_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.cache_stream):
                self.pool.data[block, :n].copy_(self.pool.data[source, :n], non_blocking=True)
        return block


class Receiver(threading.Thread):
    """Moves payloads that the network card left in pinned memory into the pool."""

    def __init__(self, pool: BlockPool, wire: "queue.Queue[torch.Tensor]"):
        super().__init__(daemon=True)
        self.pool = pool
        self.wire = wire
        self.inbox: "queue.Queue[Destination | None]" = queue.Queue()
        self.stream = torch.cuda.Stream()

    def post(self, dest: Destination):
        self.inbox.put(dest)

    def run(self):
        while True:
            dest = self.inbox.get()
            if dest is None:
                return
            payload = self.wire.get()
            with torch.cuda.stream(self.stream):
                self.pool.data[dest.block].copy_(payload, non_blocking=True)
            self.stream.synchronize()
            dest.ready.set()


class GenerationWorker:
    def __init__(self, manager: KVCacheManager, receiver: Receiver):
        self.manager = manager
        self.receiver = receiver
        self.blocks: dict[int, int] = {}

    def request(self, rid, tokens):
        block = self.manager.admit(tokens)
        self.blocks[rid] = block
        dest = Destination(rid, block, threading.Event())
        self.receiver.post(dest)
        return dest

    def attend(self, dest, query):
        dest.ready.wait()
        torch.cuda.current_stream().wait_stream(self.manager.cache_stream)
        kv = self.manager.pool.data[dest.block].view(-1, query.shape[-1])
        return torch.softmax(query @ kv.t(), dim=-1) @ kv


def main():
    pool = BlockPool(1024, 64 * 128)
    manager = KVCacheManager(pool, tokens_per_block=64, elems_per_token=128)
    wire: "queue.Queue[torch.Tensor]" = queue.Queue()
    receiver = Receiver(pool, wire)
    receiver.start()
    worker = GenerationWorker(manager, receiver)
    prompt = list(range(48))
    manager.remember(prompt[:32], pool.take())
    for rid in range(256):
        wire.put(torch.randn(64 * 128).half().pin_memory())
        dest = worker.request(rid, prompt)
        worker.attend(dest, torch.randn(8, 128, device="cuda", dtype=torch.float16))
    receiver.post(None)
    receiver.join()


if __name__ == "__main__":
    main()
