import torch
import torch.nn as nn


class CPUOffloadOptimizer:
    """Optimizer states and master weights on the host, gradients streamed."""

    def __init__(self, params, optimizer_class=torch.optim.AdamW, **kwargs):
        self.stream = torch.cuda.Stream()
        self.queue = {}
        self.param_d2h_map = {}
        self.optim_dict = {}
        for p_device in params:
            p_host = torch.empty_like(p_device, device="cpu", pin_memory=True)
            p_host.copy_(p_device.detach())
            p_host.grad = torch.empty_like(p_host, pin_memory=True)
            p_device.register_post_accumulate_grad_hook(self._backward_hook)
            self.param_d2h_map[p_device] = p_host
            self.optim_dict[p_device] = optimizer_class([p_host], **kwargs)

    def _backward_hook(self, p_device):
        if p_device.grad is None:
            return
        p_host = self.param_d2h_map[p_device]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            p_host.grad.copy_(p_device.grad, non_blocking=True)
        if p_device in self.queue:
            del self.queue[p_device]
        self.queue[p_device] = self.stream.record_event()
        p_device.grad.record_stream(self.stream)
        p_device.grad = None

    @torch.no_grad()
    def step(self, closure=None):
        self.stream.wait_stream(torch.cuda.current_stream())
        for p_device, grad_d2h_event in self.queue.items():
            grad_d2h_event.synchronize()
            self.optim_dict[p_device].step()
            p_host = self.param_d2h_map[p_device]
            with torch.cuda.stream(self.stream):
                p_device.copy_(p_host, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.queue.clear()

    def state_dict(self):
        self.stream.synchronize()
        return [opt.state_dict() for opt in self.optim_dict.values()]


def finetune(model: nn.Module, loader, lr=1e-5, accumulate_log=20):
    model.cuda()
    optimizer = CPUOffloadOptimizer(list(model.parameters()), lr=lr)
    running = torch.zeros((), device="cuda")
    for step, (tokens, labels) in enumerate(loader, start=1):
        logits = model(tokens.cuda())
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.cuda().flatten())
        loss.backward()
        optimizer.step()
        running += loss.detach()
        if step % accumulate_log == 0:
            print(step, running.item() / accumulate_log)
            running.zero_()
    return optimizer.state_dict()
