import contextlib
import threading

import torch


@torch.no_grad()
def ema_update(ema_model_tuple, current_model_tuple, decay):
    torch._foreach_mul_(ema_model_tuple, decay)
    torch._foreach_add_(ema_model_tuple, current_model_tuple, alpha=1.0 - decay)


def run_ema_update_cpu(ema_model_tuple, current_model_tuple, decay, pre_sync_stream=None):
    if pre_sync_stream is not None:
        pre_sync_stream.synchronize()
    ema_update(ema_model_tuple, current_model_tuple, decay)


class EMAOptimizer:
    """Wraps an optimizer and keeps an exponential moving average of its parameters."""

    def __init__(self, optimizer, device, decay=0.9999, every_n_steps=1):
        self.optimizer = optimizer
        self.device = torch.device(device)
        self.decay = decay
        self.every_n_steps = every_n_steps
        self.current_step = 0
        self.stream = None
        self.thread = None
        self.ema_params = ()

    def all_parameters(self):
        return (p for group in self.optimizer.param_groups for p in group["params"])

    def step(self, closure=None):
        self.join()
        if self.stream is None:
            self.stream = torch.cuda.Stream()
            self.ema_params = tuple(
                p.data.clone().to(self.device) for p in self.all_parameters()
            )
        loss = self.optimizer.step(closure)
        if self.current_step % self.every_n_steps == 0:
            self.update()
        self.current_step += 1
        return loss

    @torch.no_grad()
    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            current = tuple(
                p.data.to(self.device, non_blocking=True) for p in self.all_parameters()
            )
            if self.device.type == "cuda":
                ema_update(self.ema_params, current, self.decay)
        if self.device.type == "cpu":
            self.thread = threading.Thread(
                target=run_ema_update_cpu,
                args=(self.ema_params, current, self.decay, self.stream),
            )
            self.thread.start()

    def join(self):
        if self.stream is not None:
            self.stream.synchronize()
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    @contextlib.contextmanager
    def swap_ema_weights(self):
        self.join()
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self):
        for param, ema in zip(self.all_parameters(), self.ema_params):
            tmp = param.data.clone()
            param.data.copy_(ema)
            ema.copy_(tmp)


def fit(model, loader, val_loader, loss_fn, epochs, device="cpu"):
    optimizer = EMAOptimizer(torch.optim.AdamW(model.parameters(), lr=3e-4), device)
    for _ in range(epochs):
        for x, y in loader:
            loss = loss_fn(model(x.cuda()), y.cuda())
            optimizer.optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with optimizer.swap_ema_weights(), torch.no_grad():
            score = sum(loss_fn(model(x.cuda()), y.cuda()).item() for x, y in val_loader)
        print("ema validation", score)
