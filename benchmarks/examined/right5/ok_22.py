import torch
from torch import nn


class TwoGPUPipeline(nn.Module):
    """Stage 0 on cuda:0, stage 1 on cuda:1, handing micro-batches through fixed peer buffers."""

    def __init__(self, dim: int, micro: int, depth: int = 2):
        super().__init__()
        self.d0, self.d1 = torch.device("cuda:0"), torch.device("cuda:1")
        self.first = nn.Sequential(nn.Linear(dim, dim), nn.GELU()).to(self.d0)
        self.second = nn.Sequential(nn.Linear(dim, dim), nn.GELU()).to(self.d1)
        self.copy = torch.cuda.Stream(self.d0)
        self.inbox = [torch.empty(micro, dim, device=self.d1) for _ in range(depth)]
        self.arrived = [torch.cuda.Event() for _ in range(depth)]
        self.emptied = [torch.cuda.current_stream(self.d1).record_event() for _ in range(depth)]

    def _send(self, slot: int, h: torch.Tensor) -> None:
        self.copy.wait_stream(torch.cuda.current_stream(self.d0))
        self.copy.wait_event(self.emptied[slot])
        h.record_stream(self.copy)
        with torch.cuda.stream(self.copy):
            self.inbox[slot].copy_(h, non_blocking=True)
            self.arrived[slot].record(self.copy)

    def _receive(self, slot: int) -> torch.Tensor:
        s1 = torch.cuda.current_stream(self.d1)
        s1.wait_event(self.arrived[slot])
        out = self.second(self.inbox[slot])
        self.emptied[slot] = s1.record_event()
        return out

    @torch.no_grad()
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        outs = []
        for i, x in enumerate(batch.split(self.inbox[0].shape[0])):
            slot = i % len(self.inbox)
            self._send(slot, self.first(x))
            outs.append(self._receive(slot))
        return torch.cat(outs)


def main():
    pipe = TwoGPUPipeline(1024, micro=32)
    for _ in range(5):
        y = pipe(torch.randn(256, 1024, device="cuda:0"))
        print(y.norm().item())


if __name__ == "__main__":
    main()
