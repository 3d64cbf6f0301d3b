"""Activation paging: saved tensors leave and return over one paging stream."""
import torch
import torch.nn as nn


class PagedActivations(torch.autograd.graph.saved_tensors_hooks):
    """Large saved tensors are paged to pinned memory and back on demand."""

    def __init__(self, min_bytes: int = 1 << 20):
        self.min_bytes = min_bytes
        self.stream = torch.cuda.Stream()
        super().__init__(self._page_out, self._page_in)

    def _page_out(self, t: torch.Tensor):
        if not t.is_cuda or t.numel() * t.element_size() < self.min_bytes or t.is_leaf:
            return t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(t, non_blocking=True)
        t.record_stream(self.stream)
        return host, t.device

    def _page_in(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        host, device = packed
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            back = torch.empty(host.shape, dtype=host.dtype, device=device)
            back.copy_(host, non_blocking=True)
        compute.wait_stream(self.stream)
        back.record_stream(compute)
        return back


class Mixer(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.sigmoid(layer(x)) * x
        return x


def main() -> None:
    model = Mixer(4096, 24).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    paging = PagedActivations()
    losses = []
    for _ in range(20):
        x = torch.randn(2048, 4096, device="cuda")
        with paging:
            loss = model(x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    print(torch.stack(losses).tolist()[-1])


if __name__ == "__main__":
    main()
