"""Activation offloading with two side streams and a window of stashes."""
import torch
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    def __init__(self, min_bytes=1 << 16, max_fwd_stash=5):
        self.min_bytes = min_bytes
        self.max_fwd_stash = max_fwd_stash
        self.s0 = torch.cuda.default_stream()
        self.s1 = torch.cuda.Stream()
        self.fwd_stash = {}
        self.tracker = {}
        self.bwd_stash = {}
        self.tensor_id = 0
        super().__init__(self.pack, self.unpack)

    def _worth_it(self, t):
        return (
            t.is_cuda
            and t.numel() * t.element_size() >= self.min_bytes
            and not isinstance(t, torch.nn.Parameter)
            and t.is_contiguous()
        )

    def pack(self, activation):
        self.tensor_id += 1
        tid = self.tensor_id
        if not self._worth_it(activation):
            self.tracker[tid] = (activation, False)
            return tid
        for old in [i for i in self.fwd_stash if i <= tid - self.max_fwd_stash]:
            _, event = self.fwd_stash[old]
            self.s0.wait_event(event)
            del self.fwd_stash[old]
        self.s1.wait_stream(self.s0)
        with torch.cuda.stream(self.s1):
            cpu = torch.empty(activation.shape, dtype=activation.dtype, pin_memory=True)
            cpu.copy_(activation, non_blocking=True)
        self.fwd_stash[tid] = (activation, self.s1.record_event())
        self.tracker[tid] = (cpu, True)
        return tid

    def unpack(self, tid):
        if self.fwd_stash:
            for activation, event in self.fwd_stash.values():
                self.s0.wait_event(event)
                del activation
            self.fwd_stash.clear()
        value, offloaded = self.tracker.pop(tid)
        if not offloaded:
            return value
        with torch.cuda.stream(self.s1):
            gpu = value.to("cuda", non_blocking=True)
        self.s0.wait_stream(self.s1)
        gpu.record_stream(self.s0)
        return gpu


class Block(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = torch.nn.LayerNorm(dim)
        self.up = torch.nn.Linear(dim, 4 * dim)
        self.down = torch.nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def train(steps=10, dim=2048, depth=12):
    model = torch.nn.Sequential(*[Block(dim) for _ in range(depth)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        x = torch.randn(16, 512, dim, device="cuda")
        with OffloadActivations():
            loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        losses.append(loss.detach())
    return [v.item() for v in losses]


if __name__ == "__main__":
    print(train())
