"""Prefetch offloader: weights of offloaded modules rotate through a ring of shared device slots."""
import torch
from torch import nn


class OffloadedModule:
    def __init__(self, index, module, slot):
        self.index = index
        self.module = module
        self.slot = slot
        self.host = {}
        for name, p in module.named_parameters():
            self.host[name] = p.detach().to("cpu").pin_memory()

    def bind(self, buffers):
        for name, p in self.module.named_parameters():
            p.data = buffers[name]


class PrefetchOffloader:
    def __init__(self, modules, prefetch_step, device):
        assert len(modules) % prefetch_step == 0
        self.device = device
        self.prefetch_step = prefetch_step
        self.copy_stream = torch.cuda.Stream(device)
        self.slots = []
        for _ in range(prefetch_step):
            self.slots.append({
                name: torch.empty_like(p, device=device)
                for name, p in modules[0].named_parameters()
            })
        self.copy_done = [torch.cuda.Event() for _ in range(prefetch_step)]
        self.items = [
            OffloadedModule(i, m, i % prefetch_step) for i, m in enumerate(modules)
        ]
        for item in self.items:
            item.bind(self.slots[item.slot])
            item.module.register_forward_pre_hook(self._pre(item))
            item.module.register_forward_hook(self._post(item))
        for item in self.items[:prefetch_step]:
            self._prefetch(item)

    def _prefetch(self, item):
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            buffers = self.slots[item.slot]
            for name, host in item.host.items():
                buffers[name].copy_(host, non_blocking=True)
            self.copy_done[item.slot].record(self.copy_stream)

    def _pre(self, item):
        def hook(module, args):
            torch.cuda.current_stream(self.device).wait_event(self.copy_done[item.slot])
        return hook

    def _post(self, item):
        def hook(module, args, output):
            target = (item.index + self.prefetch_step) % len(self.items)
            self._prefetch(self.items[target])
            return output
        return hook


class Stack(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(depth)]
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


@torch.no_grad()
def serve(requests, device="cuda:0"):
    device = torch.device(device)
    model = Stack(2048, 12)
    PrefetchOffloader(list(model.blocks), prefetch_step=3, device=device)
    outputs = []
    for req in requests:
        outputs.append(model(req.to(device)))
    return torch.cat(outputs).cpu()
