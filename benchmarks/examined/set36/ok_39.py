"""KV block offloading on a copy stream."""
from collections import OrderedDict

import torch


class HostTier:
    def __init__(self, blocks, elems):
        self.data = torch.empty(blocks, elems, dtype=torch.float16, pin_memory=True)
        self.spare = list(range(blocks))
        self.index: OrderedDict = OrderedDict()

    def reserve(self, key):
        if key in self.index:
            return self.index[key]
        if not self.spare:
            _, slot = self.index.popitem(last=False)
            self.spare.append(slot)
        slot = self.spare.pop()
        self.index[key] = slot
        return slot


class BlockManager:
    """Device blocks with a page-locked second tier."""

    def __init__(self, blocks, elems, host_blocks):
        self.device = torch.zeros(blocks, elems, dtype=torch.float16, device="cuda")
        self.spare = list(range(blocks))
        self.host = HostTier(host_blocks, elems)
        self.copy_stream = torch.cuda.Stream()
        self.pending_reads: dict[int, torch.cuda.Event] = {}
        self.owner: dict = {}
        torch.cuda.synchronize()

    def allocate(self, key):
        block = self.spare.pop()
        self.owner[key] = block
        event = self.pending_reads.pop(block, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        return block

    def offload(self, key):
        block = self.owner.pop(key)
        slot = self.host.reserve(key)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.host.data[slot].copy_(self.device[block], non_blocking=True)
            self.pending_reads[block] = self.copy_stream.record_event()
        self.spare.append(block)

    def restore(self, key):
        slot = self.host.index.get(key)
        if slot is None:
            return None
        block = self.spare.pop()
        self.owner[key] = block
        self.pending_reads.pop(block, None)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.device[block].copy_(self.host.data[slot], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.copy_stream)
        return block


class Worker:
    def __init__(self, dim=128, tokens=256, blocks=64, host_blocks=512):
        self.dim = dim
        self.tokens = tokens
        self.manager = BlockManager(blocks, dim * tokens, host_blocks)
        self.stream = torch.cuda.Stream()
        self.weight = torch.randn(dim, dim, device="cuda", dtype=torch.float16) / dim ** 0.5
        torch.cuda.synchronize()

    def _view(self, block):
        return self.manager.device[block].view(self.tokens, self.dim)

    @torch.no_grad()
    def prefill(self, key, x):
        with torch.cuda.stream(self.stream):
            block = self.manager.allocate(key)
            torch.matmul(x, self.weight, out=self._view(block))

    @torch.no_grad()
    def attend(self, key, q):
        with torch.cuda.stream(self.stream):
            block = self.manager.owner.get(key)
            if block is None:
                block = self.manager.restore(key)
            kv = self._view(block)
            return torch.softmax(q @ kv.t(), dim=-1) @ kv

    def evict(self, key):
        with torch.cuda.stream(self.stream):
            self.manager.offload(key)


def main():
    worker = Worker()
    with torch.cuda.stream(worker.stream):
        x = torch.randn(256, 128, device="cuda", dtype=torch.float16)
        q = torch.randn(4, 128, device="cuda", dtype=torch.float16)
    outs = []
    for i in range(256):
        worker.prefill(i, x)
        worker.evict(i)
        if i >= 8:
            outs.append(worker.attend(i - 8, q))
            worker.evict(i - 8)
    worker.stream.synchronize()
    with torch.cuda.stream(worker.stream):
        print(float(torch.stack(outs).float().mean()))


if __name__ == "__main__":
    main()
