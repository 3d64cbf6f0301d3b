"""Prompt-embedding uploads from a private pool of pinned blocks, without host waits."""
import torch
from torch import nn


class PinnedPool:
    """Fixed-size pinned blocks that are handed out and returned explicitly."""

    def __init__(self, rows, width, blocks):
        self._free = [torch.empty(rows, width, pin_memory=True) for _ in range(blocks)]
        self._shape = (rows, width)

    def acquire(self):
        if not self._free:
            self._free.append(torch.empty(*self._shape, pin_memory=True))
        return self._free.pop()

    def release(self, block):
        self._free.append(block)


class PendingCopy:
    def __init__(self, source):
        self.source = source
        self.event = torch.cuda.Event()


class PromptEmbeddingUploader:
    """Copies prompt tables to their device slots on the buffer-manager stream."""

    def __init__(self, slots, rows, width):
        self.pool = PinnedPool(rows, width, blocks=2)
        self.stream = torch.cuda.Stream()
        self.table = torch.zeros(slots, rows, width, device="cuda")
        self.stream.wait_stream(torch.cuda.current_stream())
        self.pending = []
        self.slot_read = [None] * slots
        self.slot_ready = [None] * slots

    def _reap(self):
        still = []
        for copy in self.pending:
            if copy.event.query():
                self.pool.release(copy.source)
            else:
                still.append(copy)
        self.pending = still

    def fill(self, slot, embedding):
        self._reap()
        copy = PendingCopy(self.pool.acquire())
        copy.source.copy_(embedding)
        if self.slot_read[slot] is not None:
            self.stream.wait_event(self.slot_read[slot])
        with torch.cuda.stream(self.stream):
            self.table[slot].copy_(copy.source, non_blocking=True)
            copy.event.record()
        self.pending.append(copy)
        self.slot_ready[slot] = copy.event

    def read(self, slot):
        torch.cuda.current_stream().wait_event(self.slot_ready[slot])
        return self.table[slot]

    def mark_read(self, slot):
        event = torch.cuda.Event()
        event.record()
        self.slot_read[slot] = event

    def shutdown(self):
        for copy in self.pending:
            copy.event.synchronize()
            self.pool.release(copy.source)
        self.pending = []


@torch.no_grad()
def main():
    torch.manual_seed(0)
    slots, rows, width = 4, 256, 2048
    model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 32)).cuda()
    uploader = PromptEmbeddingUploader(slots, rows, width)
    logits = []
    for request in range(64):
        slot = request % slots
        uploader.fill(slot, torch.randn(rows, width))
        hidden = model(uploader.read(slot))
        uploader.mark_read(slot)
        logits.append(hidden.mean(dim=0))
    uploader.shutdown()
    print(torch.stack(logits).argmax(dim=1).tolist())


if __name__ == "__main__":
    main()
