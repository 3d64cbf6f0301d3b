"""Activation offloading through saved-tensor hooks and one transfer stream."""
import torch
import torch.nn as nn


class Packed:
    def __init__(self, host, device):
        self.host = host
        self.device = device


class ActivationOffload(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, device="cuda", threshold=1 << 20):
        self.device = torch.device(device)
        self.threshold = threshold
        self.transfer = torch.cuda.Stream(self.device)
        super().__init__(self._pack, self._unpack)

    def _worthwhile(self, t):
        return t.is_cuda and not isinstance(t, nn.Parameter) and t._base is None \
            and t.is_contiguous() and t.numel() * t.element_size() >= self.threshold

    def _pack(self, t):
        if not self._worthwhile(t):
            return t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.transfer.wait_stream(torch.cuda.current_stream(t.device))
        with torch.cuda.stream(self.transfer):
            host.copy_(t, non_blocking=True)
        t.record_stream(self.transfer)
        return Packed(host, t.device)

    def _unpack(self, packed):
        if not isinstance(packed, Packed):
            return packed
        current = torch.cuda.current_stream(packed.device)
        with torch.cuda.stream(self.transfer):
            t = packed.host.to(packed.device, non_blocking=True)
        current.wait_stream(self.transfer)
        t.record_stream(current)
        return t


class Net(nn.Module):
    def __init__(self, hidden, depth):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 4 * hidden), nn.GELU(),
                          nn.Linear(4 * hidden, hidden)) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def train(steps=20, hidden=1024, depth=12, rows=4096):
    model = Net(hidden, depth).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    offload = ActivationOffload()
    losses = []
    for _ in range(steps):
        x = torch.randn(rows, hidden, device="cuda")
        with offload:
            loss = (model(x) - x.roll(1, 0)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    print(train())
