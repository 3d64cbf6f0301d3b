"""Device graph runner with parameter buffers, used by a recommender's scoring service."""
import torch
from torch import nn


class DeviceGraphRunner:
    def __init__(self, fn, *example):
        self.fn = fn
        self.params = [t.clone() for t in example]
        self._stream = torch.cuda.Stream()
        self._graph = torch.cuda.CUDAGraph()
        self.host_out = None

    def capture(self, warmup=2):
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(warmup):
                out = self.fn(*self.params)
        self._stream.synchronize()
        self.host_out = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
        with torch.cuda.graph(self._graph, stream=self._stream):
            self.host_out.copy_(self.fn(*self.params), non_blocking=True)

    def _copy_to_param_buffer(self, *args):
        for dst, src in zip(self.params, args):
            dst.copy_(src, non_blocking=True)

    def forward(self, *args):
        self._copy_to_param_buffer(*args)
        self._graph.replay()
        self._stream.synchronize()
        return self.host_out.clone()


class TwoTower(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.head = nn.Sequential(nn.Linear(2 * dim, 1024), nn.ReLU(), nn.Linear(1024, 1))

    def forward(self, u, i):
        return self.head(torch.cat([self.user(u), self.item(i)], -1)).squeeze(-1)


@torch.inference_mode()
def serve(requests=100, batch=4096):
    model = TwoTower(100_000, 50_000, 256).cuda().eval()
    u = torch.randint(0, 100_000, (batch,), device="cuda")
    i = torch.randint(0, 50_000, (batch,), device="cuda")
    runner = DeviceGraphRunner(model, u, i)
    runner.capture()
    best = []
    for _ in range(requests):
        u.random_(0, 100_000)
        i.random_(0, 50_000)
        best.append(runner.forward(u, i).max().item())
    return best


if __name__ == "__main__":
    print(max(serve()))
