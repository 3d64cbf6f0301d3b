"""Move saved activations to host memory between forward and backward."""
import contextlib

import torch
import torch.nn as nn


class HostCopy:
    __slots__ = ("buffer", "ready", "device")

    def __init__(self, buffer, ready, device):
        self.buffer = buffer
        self.ready = ready
        self.device = device


class ActivationSwapper:
    def __init__(self, threshold=1 << 14):
        self.threshold = threshold
        self.copy_stream = torch.cuda.Stream()
        self.moved_bytes = 0

    def to_host(self, act):
        if act.numel() < self.threshold or isinstance(act, nn.Parameter):
            return act
        buffer = torch.empty_like(act, device="cpu", pin_memory=True)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            buffer.copy_(act, non_blocking=True)
            ready = torch.cuda.Event()
            ready.record()
        self.moved_bytes += act.numel() * act.element_size()
        return HostCopy(buffer, ready, act.device)

    def to_device(self, saved):
        if not isinstance(saved, HostCopy):
            return saved
        saved.ready.wait(torch.cuda.current_stream())
        return saved.buffer.to(saved.device, non_blocking=True)

    @contextlib.contextmanager
    def __call__(self):
        with torch.autograd.graph.saved_tensors_hooks(self.to_host, self.to_device):
            yield self


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * 1.5
        return x


def run(steps):
    model = Encoder(2048, 16).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    swapper = ActivationSwapper()
    for _ in range(steps):
        inputs = torch.randn(512, 2048, device="cuda")
        with swapper():
            loss = model(inputs).mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
    print(swapper.moved_bytes)


run(20)
