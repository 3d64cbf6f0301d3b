import queue
import threading

import torch


class Slot:
    def __init__(self, batch, seq, device):
        self.cpu = torch.empty(2 * batch * seq, dtype=torch.long, pin_memory=True)
        self.gpu = torch.empty(2 * batch * seq, dtype=torch.long, device=device)
        self.uploaded = torch.cuda.Event()
        n = batch * seq
        self.cpu_inputs = self.cpu[:n].view(batch, seq)
        self.cpu_targets = self.cpu[n:].view(batch, seq)
        self.inputs = self.gpu[:n].view(batch, seq)
        self.targets = self.gpu[n:].view(batch, seq)


class BatchBuilder:
    """Packs tokenized documents into rows, always taking the longest that still fits."""

    def __init__(self, documents, batch, seq):
        self.documents, self.batch, self.seq = iter(documents), batch, seq
        self.pending = []

    def _refill(self):
        while len(self.pending) < 1000:
            try:
                self.pending.append(next(self.documents))
            except StopIteration:
                break
        return bool(self.pending)

    def build(self, slot):
        row = torch.empty(self.seq + 1, dtype=torch.long)
        for r in range(self.batch):
            pos = 0
            while pos < self.seq + 1:
                if not self._refill():
                    return False
                room = self.seq + 1 - pos
                fitting = [d for d in self.pending if len(d) <= room]
                doc = max(fitting, key=len) if fitting else min(self.pending, key=len)
                self.pending.remove(doc)
                piece = torch.tensor(doc[:room])
                row[pos : pos + len(piece)] = piece
                pos += len(piece)
            slot.cpu_inputs[r].copy_(row[:-1])
            slot.cpu_targets[r].copy_(row[1:])
        return True


class PrefetchDataLoader:
    def __init__(self, documents, batch, seq, device="cuda", prefetch_batches=2):
        self.builder = BatchBuilder(documents, batch, seq)
        self.stream = torch.cuda.current_stream()
        self.free, self.ready = queue.Queue(), queue.Queue()
        for _ in range(prefetch_batches + 1):
            self.free.put(Slot(batch, seq, device))
        self.in_use = None
        self.thread = threading.Thread(target=self._produce, daemon=True)
        self.thread.start()

    def _produce(self):
        while True:
            slot = self.free.get()
            if slot is None:
                return
            slot.uploaded.synchronize()
            if not self.builder.build(slot):
                self.ready.put(None)
                return
            with torch.cuda.stream(self.stream):
                slot.gpu.copy_(slot.cpu, non_blocking=True)
                slot.uploaded.record()
            self.ready.put(slot)

    def __iter__(self):
        return self

    def __next__(self):
        if self.in_use is not None:
            self.free.put(self.in_use)
            self.in_use = None
        slot = self.ready.get()
        if slot is None:
            raise StopIteration
        self.in_use = slot
        return slot.inputs, slot.targets

    def close(self):
        self.free.put(None)


def train(model, documents, optimizer, batch=32, seq=2048, log_every=50):
    loader = PrefetchDataLoader(documents, batch, seq)
    smooth = torch.zeros((), device="cuda")
    for step, (inputs, targets) in enumerate(loader):
        loss = model(inputs, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        smooth.lerp_(loss.detach(), 0.05)
        if step % log_every == 0:
            print(step, smooth.item())
    loader.close()
