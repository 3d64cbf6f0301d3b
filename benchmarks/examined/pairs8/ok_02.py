import torch
import torch.nn as nn


class ReqToTokenPool:
    def __init__(self, size, max_ctx):
        self.req_to_token = torch.zeros((size, max_ctx), dtype=torch.int32, device="cuda")
        self.seq_lens = torch.zeros(size, dtype=torch.int32, device="cuda")

    def append(self, rows, slots):
        pos = self.seq_lens[rows].long()
        self.req_to_token[rows, pos] = slots
        self.seq_lens[rows] += 1


class OverlapScheduler:
    """Batches are prepared on one stream while the previous forward runs on another."""

    def __init__(self, num_reqs=16, max_ctx=1024, heads=8, dim=64):
        self.pool = ReqToTokenPool(num_reqs, max_ctx)
        self.kv = torch.randn(num_reqs * max_ctx, heads * dim, device="cuda")
        self.proj = nn.Linear(heads * dim, 32000, device="cuda")
        self.schedule_stream = torch.cuda.Stream()
        self.forward_stream = torch.cuda.Stream()
        self.rows = torch.arange(num_reqs, device="cuda")
        self.logits = torch.empty(num_reqs, 32000, device="cuda")
        torch.cuda.synchronize()

    def prepare_for_decode(self, step):
        slots = (self.rows * 7 + step).to(torch.int32)
        self.pool.append(self.rows, slots)

    @torch.no_grad()
    def run_batch(self, ctx):
        table = self.pool.req_to_token[:, :ctx]
        hidden = self.kv[table.long()].mean(dim=1)
        self.logits.copy_(self.proj(hidden))

    def event_loop(self, steps):
        for step in range(steps):
            self.schedule_stream.wait_stream(self.forward_stream)
            with torch.cuda.stream(self.schedule_stream):
                self.prepare_for_decode(step)
            self.forward_stream.wait_stream(self.schedule_stream)
            with torch.cuda.stream(self.forward_stream):
                self.run_batch(step + 1)
        self.forward_stream.synchronize()
        return self.logits.argmax(-1).tolist()


if __name__ == "__main__":
    print(OverlapScheduler().event_loop(64))
