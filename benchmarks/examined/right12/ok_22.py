from contextlib import contextmanager

import torch


class HostEmbedding:
    """Embedding table in host memory; rows for the coming batch are fetched ahead."""

    def __init__(self, rows, width, max_ids, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.table = torch.randn(rows, width, generator=torch.Generator().manual_seed(0))
        self.stream = torch.cuda.Stream(self.device)
        self.staging = [torch.empty(max_ids, width, pin_memory=True) for _ in range(2)]
        self.rows = [torch.empty(max_ids, width, device=self.device) for _ in range(2)]
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        for rows in self.rows:
            rows.record_stream(self.stream)
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.released = [torch.cuda.Event() for _ in range(2)]
        self.ready = []
        self.turn = 0

    def prefetch(self, ids):
        if len(self.ready) == 2:
            raise RuntimeError("two batches are already waiting")
        if ids.numel() > self.staging[0].shape[0]:
            raise ValueError("too many ids")
        slot = self.turn
        count = ids.numel()
        self.copied[slot].synchronize()
        torch.index_select(self.table, 0, ids, out=self.staging[slot][:count])
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.released[slot])
            self.rows[slot][:count].copy_(self.staging[slot][:count], non_blocking=True)
            self.copied[slot].record(self.stream)
        self.ready.append((slot, count))
        self.turn = 1 - slot

    @contextmanager
    def batch(self):
        slot, count = self.ready[0]
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.copied[slot])
        self.rows[slot].record_stream(current)
        try:
            yield self.rows[slot][:count]
        finally:
            self.released[slot].record(current)
            self.ready.pop(0)

    def close(self):
        self.stream.synchronize()
        self.ready.clear()


def main():
    embedding = HostEmbedding(100000, 64, 4096)
    gen = torch.Generator().manual_seed(1)
    plans = [torch.randint(0, 100000, (int(n),), generator=gen)
             for n in torch.randint(1, 4097, (12,), generator=gen)]
    weight = torch.randn(64, 32, device="cuda")
    total = torch.zeros(32, device="cuda")
    embedding.prefetch(plans[0])
    for index in range(len(plans)):
        if index + 1 < len(plans):
            embedding.prefetch(plans[index + 1])
        with embedding.batch() as rows:
            total += (rows @ weight).mean(0)
    want = sum((embedding.table[ids] @ weight.cpu()).mean(0) for ids in plans)
    print((total.cpu() - want).abs().max().item())
    embedding.prefetch(plans[0])
    try:
        with embedding.batch() as rows:
            rows @ weight.t()
    except RuntimeError:
        print("shape error")
    embedding.close()


if __name__ == "__main__":
    main()
