from typing import Dict, List

import torch
import torch.distributed as dist


class MetricAverager:
    """Averages layer statistics over ranks beside the training step."""

    def __init__(self, names: List[str], dims: Dict[str, int], group=None, momentum: float = 0.9):
        self.names = names
        self.dims = dims
        self.group = group
        self.momentum = momentum
        device = torch.cuda.current_device()
        self.comm_stream = torch.cuda.Stream()
        self.running = torch.zeros(sum(dims[n] for n in names), device=device)

    def _pack(self, stats: Dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([stats[name].float().view(-1) for name in self.names])

    def update(self, stats: Dict[str, torch.Tensor]) -> None:
        flat = self._pack(stats)
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            work = dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=self.group, async_op=True)
            work.wait()
            self.running.mul_(self.momentum).add_(flat, alpha=1 - self.momentum)

    def result(self) -> Dict[str, torch.Tensor]:
        torch.cuda.current_stream().wait_stream(self.comm_stream)
        pieces = self.running.clone().split([self.dims[n] for n in self.names])
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        return dict(zip(self.names, pieces))


class ActivationStatsHook:
    def __init__(self, model: torch.nn.Module):
        self.stats: Dict[str, torch.Tensor] = {}
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_hook(self._make_hook(name))

    def _make_hook(self, name):
        def hook(module, args, output):
            self.stats[name] = output.detach().flatten(0, -2).abs().mean(dim=0)

        return hook

    def pop(self) -> Dict[str, torch.Tensor]:
        stats, self.stats = self.stats, {}
        return stats


def train(model, loss_fn, optimizer, loader, log_every=100):
    dims = {n: m.out_features for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    hook = ActivationStatsHook(model)
    averager = MetricAverager(sorted(dims), dims)
    for step, (x, y) in enumerate(loader):
        loss = loss_fn(model(x.cuda()), y.cuda())
        averager.update(hook.pop())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % log_every == 0:
            print({k: v.mean().item() for k, v in averager.result().items()})
