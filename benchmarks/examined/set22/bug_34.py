"""Activation offloading with saved-tensor hooks (pinned host copies, prefetch on s1)."""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    def __init__(self, min_bytes=1024):
        self.tracker = {}
        self.next_id = 0
        self.min_bytes = min_bytes
        self.s0 = torch.cuda.current_stream()
        self.s1 = torch.cuda.Stream()
        super().__init__(self.pack_tensor, self.unpack_tensor)

    def pack_tensor(self, activation):
        tid = self.next_id
        self.next_id += 1
        if not activation.is_cuda or activation.numel() * activation.element_size() < self.min_bytes \
                or isinstance(activation, nn.Parameter):
            self.tracker[tid] = (activation, False, False)
            return tid
        host = torch.empty(activation.shape, dtype=activation.dtype, pin_memory=True)
        self.s1.wait_stream(self.s0)
        activation.record_stream(self.s1)
        with torch.cuda.stream(self.s1):
            host.copy_(activation, non_blocking=True)
        self.tracker[tid] = (host, True, activation._is_view())
        return tid

    def unpack_tensor(self, tid):
        tensor, offloaded, was_view = self.tracker.pop(tid)
        if not offloaded:
            return tensor
        with torch.cuda.stream(self.s1):
            gpu = tensor.to("cuda", non_blocking=True)
        self.s0.wait_stream(self.s1)
        if was_view:
            gpu.record_stream(self.s0)
        return gpu


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*[Block(1024) for _ in range(8)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    hooks = OffloadActivations()
    for _ in range(20):
        x = torch.randn(8192, 1024, device="cuda")
        with hooks:
            loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    print(float(loss))


if __name__ == "__main__":
    main()
