"""Streaming DiLoCo: model fragments exchange pseudo-gradients on their own streams between inner steps."""
import torch
import torch.distributed as dist


class Fragment:
    def __init__(self, params, group, outer_lr):
        self.params = list(params)
        self.group = group
        self.outer_lr = outer_lr
        self.backup = [p.detach().clone() for p in self.params]
        self.stream = torch.cuda.Stream()
        self.pseudo = None
        self.stop_event = None

    @torch.no_grad()
    def prepare_sync(self):
        self.pseudo = [b - p.detach() for b, p in zip(self.backup, self.params)]
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            works = [
                dist.all_reduce(g, op=dist.ReduceOp.AVG, group=self.group, async_op=True)
                for g in self.pseudo
            ]
            for work in works:
                work.wait()
            self.stop_event = torch.cuda.Event()
            self.stop_event.record(self.stream)
        for g in self.pseudo:
            g.record_stream(self.stream)

    @torch.no_grad()
    def perform_sync(self):
        torch.cuda.current_stream().wait_event(self.stop_event)
        for b, p, g in zip(self.backup, self.params, self.pseudo):
            b.add_(g, alpha=-self.outer_lr)
            p.copy_(b)
        self.pseudo = None
        self.stop_event = None


class StreamingDiLoCo:
    def __init__(self, model, num_fragments, sync_every, delay, group, outer_lr=0.7):
        params = list(model.parameters())
        size = (len(params) + num_fragments - 1) // num_fragments
        self.fragments = [
            Fragment(params[i:i + size], group, outer_lr) for i in range(0, len(params), size)
        ]
        self.sync_every = sync_every
        self.delay = delay
        self.step_count = 0
        self.pending = None

    def step(self):
        self.step_count += 1
        phase = self.step_count % self.sync_every
        if phase == self.sync_every - self.delay:
            which = (self.step_count // self.sync_every) % len(self.fragments)
            self.pending = self.fragments[which]
            self.pending.prepare_sync()
        elif phase == 0 and self.pending is not None:
            self.pending.perform_sync()
            self.pending = None


def train(rank, model, loader, steps):
    torch.cuda.set_device(rank)
    model = model.cuda()
    inner = torch.optim.AdamW(model.parameters(), lr=4e-4)
    outer = StreamingDiLoCo(model, num_fragments=4, sync_every=20, delay=5, group=dist.group.WORLD)
    for _, batch in zip(range(steps), loader):
        loss = model(batch.cuda(non_blocking=True)).float().pow(2).mean()
        inner.zero_grad(set_to_none=True)
        loss.backward()
        inner.step()
        outer.step()
    torch.cuda.synchronize()
