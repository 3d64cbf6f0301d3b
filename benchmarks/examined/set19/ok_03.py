"""Exponential moving average kept by an optimizer wrapper, on the GPU's side stream or on the CPU."""
import contextlib
import threading

import torch


@torch.no_grad()
def ema_update(ema, current, decay):
    torch._foreach_mul_(ema, decay)
    torch._foreach_add_(ema, current, alpha=1.0 - decay)


def run_ema_update_cpu(ema, copies, decay, pre_sync_stream):
    if pre_sync_stream is not None:
        pre_sync_stream.synchronize()
    ema_update(ema, copies, decay)


class EMAOptimizer(torch.optim.Optimizer):
    def __init__(self, optimizer, device, decay=0.999, every_n_steps=1):
        self.optimizer = optimizer
        self.decay = decay
        self.device = torch.device(device)
        self.every_n_steps = every_n_steps
        self.current_step = 0
        self.stream = None
        self.thread = None
        self.ema_params = ()
        self.host_copies = ()
        self.in_ema = False

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def all_parameters(self):
        return [p for g in self.optimizer.param_groups for p in g["params"]]

    def _setup(self):
        self.stream = torch.cuda.Stream()
        params = self.all_parameters()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            if self.device.type == "cuda":
                self.ema_params = tuple(p.detach().clone() for p in params)
            else:
                self.ema_params = tuple(p.detach().cpu().clone() for p in params)
                self.host_copies = tuple(torch.empty_like(e, pin_memory=True) for e in self.ema_params)

    def step(self, closure=None):
        self.join()
        if self.stream is None:
            self._setup()
        loss = self.optimizer.step(closure)
        if self.current_step % self.every_n_steps == 0:
            self.update()
        self.current_step += 1
        return loss

    @torch.no_grad()
    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        params = [p.detach() for p in self.all_parameters()]
        with torch.cuda.stream(self.stream):
            if self.device.type == "cuda":
                ema_update(self.ema_params, params, self.decay)
                return
            for dst, src in zip(self.host_copies, params):
                dst.copy_(src, non_blocking=True)
        self.thread = threading.Thread(
            target=run_ema_update_cpu,
            args=(self.ema_params, self.host_copies, self.decay, self.stream),
        )
        self.thread.start()

    def join(self):
        """Order the weights after the last average: needed before they change."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    @contextlib.contextmanager
    def swap_ema_weights(self):
        self.join()
        params = self.all_parameters()
        saved = [p.detach().clone() for p in params]
        with torch.no_grad():
            for p, e in zip(params, self.ema_params):
                p.copy_(e)
        try:
            yield
        finally:
            with torch.no_grad():
                for p, s in zip(params, saved):
                    p.copy_(s)


def fit(model, loader, evaluate, device="cpu"):
    opt = EMAOptimizer(torch.optim.AdamW(model.parameters()), device, every_n_steps=4)
    for i, (x, y) in enumerate(loader):
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        opt.step()
        opt.optimizer.zero_grad()
        if i % 1000 == 999:
            with opt.swap_ema_weights():
                evaluate(model)
