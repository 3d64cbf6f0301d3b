"""Mixture-of-experts block captured once; shared expert and router run as graph branches."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Branch:
    """A side stream that can be forked from and joined to the stream in use."""

    def __init__(self):
        self.stream = torch.cuda.Stream()

    def __enter__(self):
        self._ctx = torch.cuda.stream(self.stream)
        self.stream.wait_stream(torch.cuda.current_stream())
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        self._ctx.__exit__(*exc)
        return False

    def join(self):
        torch.cuda.current_stream().wait_stream(self.stream)


class MoEBlock(nn.Module):
    def __init__(self, dim, experts=8):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.shared = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.up = nn.Parameter(torch.randn(experts, dim, dim) / dim ** 0.5)
        self.down = nn.Parameter(torch.randn(experts, dim, dim) / dim ** 0.5)
        self.shared_branch = Branch()
        self.router_branch = Branch()

    def forward(self, x):
        with self.shared_branch:
            shared = self.shared(x)
        with self.router_branch:
            gates = torch.softmax(self.router(x), dim=-1)
        h = F.silu(torch.einsum("td,edf->etf", x, self.up))
        routed = torch.einsum("etf,efd->etd", h, self.down)
        self.router_branch.join()
        mixed = torch.einsum("etd,te->td", routed, gates)
        self.shared_branch.join()
        return mixed + shared


class CapturedBlock:
    def __init__(self, block: nn.Module, example: torch.Tensor):
        self.block = block
        self.x = example.clone()
        self.capture_stream = torch.cuda.Stream()
        self.capture_stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(self.capture_stream):
            for _ in range(3):
                block(self.x)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.capture_stream):
            self.y = block(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


class Model:
    def __init__(self, dim=1024, tokens=256, depth=4):
        example = torch.zeros(tokens, dim, device="cuda")
        self.blocks = [CapturedBlock(MoEBlock(dim).cuda().eval(), example) for _ in range(depth)]

    def __call__(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def main():
    model = Model()
    x = torch.randn(256, 1024, device="cuda")
    for _ in range(50):
        x = F.layer_norm(model(x), (1024,))
    print(float(x.std()))


if __name__ == "__main__":
    main()
