import torch
import torch.distributed as dist


class FlatGrads:
    def __init__(self, params):
        self.params = list(params)
        total = sum(p.numel() for p in self.params)
        self.flat = torch.zeros(total, dtype=torch.float32, device=self.params[0].device)
        offset = 0
        for p in self.params:
            p.grad = self.flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()


class OverlappedReducer:
    """One all-reduce per group of layers, launched as soon as its gradients are there."""

    def __init__(self, groups, process_group=None):
        self.groups = [FlatGrads(g) for g in groups]
        self.process_group = process_group
        self.world = dist.get_world_size(process_group)
        self.comm_stream = torch.cuda.Stream(priority=-1)
        self.works = []
        self._pending = [len(g.params) for g in self.groups]
        for i, g in enumerate(self.groups):
            for p in g.params:
                p.register_post_accumulate_grad_hook(lambda _, i=i: self._ready(i))

    def _ready(self, i):
        self._pending[i] -= 1
        if self._pending[i]:
            return
        self._pending[i] = len(self.groups[i].params)
        flat = self.groups[i].flat
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            flat.div_(self.world)
            work = dist.all_reduce(flat, group=self.process_group, async_op=True)
        self.works.append(work)

    def finish(self):
        with torch.cuda.stream(self.comm_stream):
            for work in self.works:
                work.wait()
        self.works.clear()

    def zero(self):
        for g in self.groups:
            g.flat.zero_()

    def clip(self, max_norm):
        norm = torch.linalg.vector_norm(torch.stack([g.flat.norm() for g in self.groups]))
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for g in self.groups:
            g.flat.mul_(scale)
        return norm


def train(model, batches, lr=3e-4, max_norm=1.0, log_every=50):
    reducer = OverlappedReducer([list(layer.parameters()) for layer in model.layers])
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    for step, (x, y) in enumerate(batches):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        reducer.finish()
        norm = reducer.clip(max_norm)
        optimizer.step()
        reducer.zero()
        if step % log_every == 0 and dist.get_rank() == 0:
            print(step, loss.item(), norm.item())
