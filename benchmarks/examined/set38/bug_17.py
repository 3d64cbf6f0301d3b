"""Intra-node combine step of an expert-parallel layer, with an asynchronous handle."""
import torch
import torch.nn as nn


class EventOverlap:
    def __init__(self, event=None, extra=()):
        self.event = event
        self.extra = tuple(extra)

    def current_stream_wait(self):
        torch.cuda.current_stream().wait_event(self.event)


class Buffer:
    def __init__(self, device):
        self.device = device
        self.comm_stream = torch.cuda.Stream(device=device)

    def _allocate_output(self, rows, hidden, like):
        out = torch.empty((rows, hidden), dtype=like.dtype, device=like.device)
        if torch.are_deterministic_algorithms_enabled():
            out.fill_(float("nan"))
        return out

    def get_layout(self, topk_idx, experts):
        counts = torch.bincount(topk_idx.flatten(), minlength=experts)
        order = topk_idx.flatten().argsort(stable=True)
        return counts, order

    def combine(self, x, order, topk_weights, async_finish=False):
        compute = torch.cuda.current_stream()
        rows, k = topk_weights.shape
        self.comm_stream.wait_stream(compute)
        recv_x = self._allocate_output(rows, x.shape[-1], x)
        with torch.cuda.stream(self.comm_stream):
            inv = torch.empty_like(order)
            inv[order] = torch.arange(order.numel(), device=order.device)
            gathered = x[inv].view(rows, k, -1)
            torch.sum(gathered * topk_weights.unsqueeze(-1), dim=1, out=recv_x)
            event = self.comm_stream.record_event()
        for t in (x, order, topk_weights, recv_x):
            t.record_stream(self.comm_stream)
        handle = EventOverlap(event, (x, order, topk_weights))
        if not async_finish:
            handle.current_stream_wait()
        return recv_x, handle


class ExpertLayer(nn.Module):
    def __init__(self, dim, experts, k, buffer):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.w = nn.Parameter(torch.randn(experts, dim, dim) * dim ** -0.5)
        self.shared = nn.Linear(dim, dim)
        self.k = k
        self.buffer = buffer

    def forward(self, x):
        weights, idx = self.gate(x).softmax(-1).topk(self.k, dim=-1)
        counts, order = self.buffer.get_layout(idx, self.w.shape[0])
        tokens = x[order // self.k]
        outs = []
        for e, part in enumerate(tokens.split(counts.tolist())):
            outs.append(part @ self.w[e])
        y, handle = self.buffer.combine(torch.cat(outs), order, weights, async_finish=True)
        shared = self.shared(x)
        handle.current_stream_wait()
        return y + shared


def main(deterministic=True):
    torch.manual_seed(0)
    if deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)
    device = torch.device("cuda")
    layer = ExpertLayer(2048, 8, 2, Buffer(device)).to(device)
    x = torch.randn(8192, 2048, device=device)
    with torch.no_grad():
        for _ in range(10):
            x = torch.nn.functional.normalize(layer(x), dim=-1)
    print(x.isnan().any().item(), x.norm().item())


if __name__ == "__main__":
    main()
