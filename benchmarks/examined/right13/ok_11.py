"""A captured two-branch graph that may be replayed from any stream or thread."""
import threading

import torch
from torch import nn


class TwoBranch(nn.Module):
    def __init__(self, dim, hidden, device="cuda"):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.right = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, dim))
        self.to(device)
        self.side = torch.cuda.Stream(device)

    def forward(self, x):
        here = torch.cuda.current_stream(x.device)
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            r = self.right(x)
        left = self.left(x)
        here.wait_stream(self.side)
        r.record_stream(here)
        return torch.cat((left, r), dim=-1)


class CapturedBranches:
    def __init__(self, module, batch, dim, device="cuda"):
        self.module = module.eval()
        self.device = torch.device(device)
        self.lock = threading.Lock()
        self.x = torch.zeros(batch, dim, device=self.device)
        warm = torch.cuda.Stream(self.device)
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm), torch.no_grad():
            for _ in range(3):
                self.module(self.x)
        torch.cuda.current_stream(self.device).wait_stream(warm)

        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y = self.module(self.x)
        self.last = torch.cuda.Event()
        self.last.record(torch.cuda.current_stream(self.device))

    def __call__(self, x):
        stream = torch.cuda.current_stream(self.device)
        with self.lock:
            stream.wait_event(self.last)
            try:
                self.x.copy_(x)
                self.graph.replay()
                return self.y.clone()
            finally:
                self.last.record(stream)


def serve(captured, requests, workers=4):
    results = [None] * len(requests)

    def work(rank):
        torch.cuda.set_device(captured.device)
        mine = torch.cuda.Stream(captured.device)
        with torch.cuda.stream(mine):
            for i in range(rank, len(requests), workers):
                results[i] = captured(requests[i]).cpu()

    threads = [threading.Thread(target=work, args=(r,)) for r in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


if __name__ == "__main__":
    net = TwoBranch(128, 512)
    runner = CapturedBranches(net, 16, 128)
    outs = serve(runner, [torch.randn(16, 128) for _ in range(64)])
    print(sum(o.sum().item() for o in outs))
