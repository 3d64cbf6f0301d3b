import torch
from torch import nn


class Captured:
    """A module replayed from a graph with fixed input and output."""

    def __init__(self, net, sample):
        self.static_in = sample.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                net(self.static_in)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.static_out = net(self.static_in)

    def replay(self):
        self.graph.replay()


class ReplayServer:
    def __init__(self, captured, shape):
        self.captured = captured
        self.feed = torch.cuda.Stream()
        self.staging = torch.empty(shape, device="cuda")
        self.loaded = torch.cuda.Event()
        self.copied = torch.cuda.Event()
        self.copied.record()
        self.back = [torch.empty_like(captured.static_out, device="cpu").pin_memory() for _ in range(2)]
        self.landed = [torch.cuda.Event() for _ in range(2)]

    def stage(self, host):
        self.feed.wait_event(self.copied)
        with torch.cuda.stream(self.feed):
            self.staging.copy_(host, non_blocking=True)
            self.loaded.record(self.feed)

    def launch(self, n):
        now = torch.cuda.current_stream()
        now.wait_event(self.loaded)
        self.captured.static_in.copy_(self.staging)
        self.copied.record(now)
        self.captured.replay()
        self.back[n % 2].copy_(self.captured.static_out, non_blocking=True)
        self.landed[n % 2].record(now)

    def answer(self, n):
        self.landed[n % 2].synchronize()
        return self.back[n % 2].argmax(-1).tolist()


def serve(server, requests):
    server.stage(requests[0])
    for n in range(len(requests)):
        server.launch(n)
        if n + 1 < len(requests):
            server.stage(requests[n + 1])
        if n > 0:
            yield server.answer(n - 1)
    yield server.answer(len(requests) - 1)


def main():
    net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 10)).cuda().eval()
    shape = (8, 256)
    captured = Captured(net, torch.randn(shape, device="cuda"))
    server = ReplayServer(captured, shape)
    requests = [torch.randn(shape).pin_memory() for _ in range(16)]
    for row in serve(server, requests):
        print(row)


if __name__ == "__main__":
    main()
