import torch


class ForkJoin:
    """Runs two callables beside each other inside a capture."""

    def __init__(self):
        self.side = torch.cuda.Stream()

    def __call__(self, first, second):
        main = torch.cuda.current_stream()
        fork = torch.cuda.Event()
        fork.record(main)
        self.side.wait_event(fork)
        with torch.cuda.stream(self.side):
            b = second()
            join = torch.cuda.Event()
            join.record()
        a = first()
        main.wait_event(join)
        return a, b


class SharedExpertBlock(torch.nn.Module):
    def __init__(self, dim, fork_join):
        super().__init__()
        self.routed = torch.nn.Linear(dim, dim)
        self.shared = torch.nn.Linear(dim, dim)
        self.fork_join = [fork_join]

    def forward(self, x):
        a, b = self.fork_join[0](lambda: self.routed(x), lambda: self.shared(x))
        return torch.relu(a + b) + x


class CapturedModel:
    def __init__(self, blocks, shape):
        self.blocks = blocks
        self.input = torch.zeros(shape, device="cuda")
        self.keep = []
        self.graph = torch.cuda.CUDAGraph()
        self._record()

    def _body(self):
        x = self.input
        for block in self.blocks:
            self.keep.append(x)
            x = block(x)
        return x

    @torch.no_grad()
    def _record(self):
        self._body()
        torch.cuda.synchronize()
        self.keep.clear()
        with torch.cuda.graph(self.graph):
            self.output = self._body()

    def __call__(self, x):
        self.input.copy_(x, non_blocking=True)
        self.graph.replay()
        return self.output.clone()


def main():
    fork_join = ForkJoin()
    blocks = [SharedExpertBlock(256, fork_join).cuda() for _ in range(6)]
    model = CapturedModel(blocks, (32, 256))
    x = torch.randn(32, 256, device="cuda")
    for _ in range(10):
        x = model(x)
    print(x.norm().item())


if __name__ == "__main__":
    main()
