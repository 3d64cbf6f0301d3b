import queue
import threading

import torch


class Slot:
    def __init__(self, rows, dim):
        self.host = torch.empty(rows, dim, pin_memory=True)
        self.dev = torch.empty(rows, dim, device="cuda")
        self.filled = torch.cuda.Event()
        self.consumed = torch.cuda.Event()
        self.count = 0


class FeatureFetcher(threading.Thread):
    def __init__(self, table, sampler, slots):
        super().__init__(daemon=True)
        self.table, self.sampler = table, sampler
        self.idle, self.ready = queue.Queue(), queue.Queue()
        for s in slots:
            self.idle.put(s)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _fill(self, slot, ids):
        slot.filled.synchronize()
        n = slot.count = ids.numel()
        torch.index_select(self.table, 0, ids, out=slot.host[:n])
        self.stream.wait_event(slot.consumed)
        with torch.cuda.stream(self.stream):
            slot.dev[:n].copy_(slot.host[:n], non_blocking=True)
            slot.filled.record(self.stream)

    def run(self):
        for ids in self.sampler:
            slot = self.idle.get()
            self._fill(slot, ids)
            self.ready.put(slot)
        self.ready.put(None)


class GnnTrainer:
    def __init__(self, model, opt, fetcher):
        self.model, self.opt, self.fetcher = model, opt, fetcher

    def _features(self, slot):
        torch.cuda.current_stream().wait_event(slot.filled)
        return slot.dev[:slot.count]

    def _release(self, slot):
        slot.consumed.record()
        self.fetcher.idle.put(slot)

    def epoch(self):
        self.fetcher.start()
        while (slot := self.fetcher.ready.get()) is not None:
            try:
                out = self.model(self._features(slot))
                loss = out.square().mean()
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                self.opt.step()
            finally:
                self._release(slot)
        torch.cuda.synchronize()


def main():
    table = torch.randn(100_000, 128)
    batches = [torch.randint(0, 100_000, (4096,)) for _ in range(50)]
    model = torch.nn.Linear(128, 32).cuda()
    opt = torch.optim.Adam(model.parameters())
    fetcher = FeatureFetcher(table, iter(batches), [Slot(4096, 128) for _ in range(3)])
    GnnTrainer(model, opt, fetcher).epoch()


if __name__ == "__main__":
    main()
