"""CPU Adam that steps behind the GPU, parameter by parameter."""
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import nn


class HostParam:
    def __init__(self, param: nn.Parameter):
        self.param = param
        self.master = param.detach().float().cpu().pin_memory()
        self.grad = torch.empty_like(self.master, pin_memory=True)
        self.upload = torch.cuda.Event()
        self.future: Future | None = None


class OffloadedSGD:
    def __init__(self, model: nn.Module, lr: float):
        self.lr = lr
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(1)
        self.slots = {p: HostParam(p) for p in model.parameters()}
        for module in model.modules():
            own = list(module.parameters(recurse=False))
            if own:
                module.register_forward_pre_hook(self._make_hook(own))

    def _make_hook(self, params):
        def hook(module, args):
            for p in params:
                self._settle(self.slots[p])
        return hook

    def _settle(self, slot: HostParam):
        if slot.future is not None:
            slot.future.result()
            slot.future = None
            torch.cuda.current_stream().wait_event(slot.upload)

    def step(self):
        compute = torch.cuda.current_stream()
        after_backward = compute.record_event()
        for slot in self.slots.values():
            self._settle(slot)
            self.d2h.wait_event(after_backward)
            with torch.cuda.stream(self.d2h):
                slot.grad.copy_(slot.param.grad, non_blocking=True)
                landed = self.d2h.record_event()
            slot.param.grad.record_stream(self.d2h)
            slot.param.grad = None
            slot.future = self.pool.submit(self._update, slot, landed, after_backward)

    def _update(self, slot: HostParam, landed, after_backward):
        landed.synchronize()
        slot.upload.synchronize()
        slot.master.add_(slot.grad, alpha=-self.lr)
        self.h2d.wait_event(after_backward)
        with torch.cuda.stream(self.h2d), torch.no_grad():
            slot.param.data.copy_(slot.master, non_blocking=True)
            slot.upload.record()

    def flush(self):
        for slot in self.slots.values():
            self._settle(slot)
        self.pool.shutdown()


def main():
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    opt = OffloadedSGD(model, 1e-2)
    for _ in range(10):
        model(torch.randn(64, 512, device="cuda")).square().mean().backward()
        opt.step()
    opt.flush()
    print(sum(p.sum() for p in model.parameters()).item())


if __name__ == "__main__":
    main()
