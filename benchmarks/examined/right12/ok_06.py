import torch


class TwoBranchGraph:
    """Captures two concurrent branches and replays them as a unit."""

    def __init__(self, size, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        gen = torch.Generator(device=self.device).manual_seed(3)
        self.wa = torch.randn(size, size, device=self.device, generator=gen) / size ** 0.5
        self.wb = torch.randn(size, size, device=self.device, generator=gen) / size ** 0.5
        self.x = torch.zeros(size, size, device=self.device)
        self.side = torch.cuda.Stream(self.device)
        self.capture = torch.cuda.Stream(self.device)
        self.capture.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.capture):
            for _ in range(2):
                self.held = self._body()
        self.capture.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.capture):
            self.held = self._body()

    def _body(self):
        main = torch.cuda.current_stream(self.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            hidden = torch.mm(self.x, self.wb)
            right = torch.tanh(hidden)
        left = torch.mm(self.x, self.wa)
        left_act = torch.sigmoid(left)
        main.wait_stream(self.side)
        joined = left_act * right
        return hidden, right, left, left_act, joined

    def run(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.held[-1].clone()

    def run_many(self, xs):
        out = torch.empty(len(xs), *self.x.shape, device=self.device)
        for index, x in enumerate(xs):
            self.x.copy_(x)
            self.graph.replay()
            out[index].copy_(self.held[-1])
        return out


def reference(block, x):
    return torch.sigmoid(x @ block.wa) * torch.tanh(x @ block.wb)


def main():
    block = TwoBranchGraph(256)
    xs = [torch.randn(256, 256, device="cuda") for _ in range(5)]
    single = block.run(xs[0])
    many = block.run_many(xs)
    host = torch.randn(256, 256)
    from_host = block.run(host)
    worst = max((many[i] - reference(block, x)).abs().max().item() for i, x in enumerate(xs))
    print(worst, (single - many[0]).abs().max().item())
    print((from_host - reference(block, host.cuda())).abs().max().item())


if __name__ == "__main__":
    main()
