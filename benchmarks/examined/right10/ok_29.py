"""Expert layers spread over streams with capacity-padded dispatch."""
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, n, dim, hidden):
        super().__init__()
        self.up = nn.Parameter(torch.randn(n, dim, hidden) * dim ** -0.5)
        self.down = nn.Parameter(torch.randn(n, hidden, dim) * hidden ** -0.5)

    def run(self, e, x, out):
        torch.mm(torch.relu(x @ self.up[e]), self.down[e], out=out)


class MoE(nn.Module):
    def __init__(self, n=8, dim=512, hidden=1024, capacity=128):
        super().__init__()
        self.gate = nn.Linear(dim, n, bias=False)
        self.experts = Experts(n, dim, hidden)
        self.capacity = capacity
        self.n = n
        self.lanes: list[torch.cuda.Stream] = []
        self.marks: list[torch.cuda.Event] = []

    def _lanes(self):
        if not self.lanes:
            self.lanes = [torch.cuda.Stream() for _ in range(self.n)]
            self.marks = [torch.cuda.Event() for _ in range(self.n)]
        return zip(self.lanes, self.marks)

    @torch.no_grad()
    def forward(self, x):
        main = torch.cuda.current_stream()
        prob = self.gate(x).softmax(-1)
        weight, token = prob.T.topk(self.capacity, dim=-1)
        packed = x[token]
        result = torch.empty_like(packed)
        dispatched = main.record_event()
        for e, (stream, mark) in enumerate(self._lanes()):
            stream.wait_event(dispatched)
            with torch.cuda.stream(stream):
                self.experts.run(e, packed[e], result[e])
            mark.record(stream)
        out = torch.zeros_like(x)
        [main.wait_event(m) for m in self.marks]
        out.index_add_(0, token.flatten(), (result * weight[..., None]).flatten(0, 1))
        return x + out


def main():
    net = nn.Sequential(*[MoE() for _ in range(3)]).cuda()
    x = torch.randn(1024, 512, device="cuda")
    for _ in range(10):
        x = torch.nn.functional.layer_norm(net(x), (512,))
    print(x.std().item())


if __name__ == "__main__":
    main()
