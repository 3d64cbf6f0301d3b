import threading

import torch


class TwoTower(torch.nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        self.left = torch.nn.Linear(dim, dim)
        self.right = torch.nn.Linear(dim, dim)
        self.side = None

    def forward(self, x):
        current = torch.cuda.current_stream(x.device)
        if self.side is None:
            self.side = torch.cuda.Stream(x.device)
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            right = torch.relu(self.right(x))
        left = torch.relu(self.left(x))
        current.wait_stream(self.side)
        return left * right


class GraphRunner:
    """Replays one captured forward; safe to call from several threads and streams."""

    def __init__(self, model: torch.nn.Module, example: torch.Tensor, warmup: int = 3):
        self.model = model
        self.device = example.device
        self.stream = torch.cuda.Stream(self.device)
        self.static_in = torch.empty_like(example)
        self.graph = torch.cuda.CUDAGraph()
        self.lock = threading.Lock()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.no_grad():
            with torch.cuda.stream(self.stream):
                self.static_in.copy_(example)
                for _ in range(warmup):
                    model(self.static_in)
            self.stream.synchronize()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.static_out = model(self.static_in)

    def run(self, x: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream(self.device)
        with self.lock:
            self.stream.wait_stream(caller)
            with torch.cuda.stream(self.stream):
                self.static_in.copy_(x)
                self.graph.replay()
                out = self.static_out.clone()
            x.record_stream(self.stream)
            caller.wait_stream(self.stream)
        out.record_stream(caller)
        return out


def main():
    torch.cuda.init()
    model = TwoTower().cuda().eval()
    runner = GraphRunner(model, torch.zeros(64, 512, device="cuda"))
    results = []

    def client(seed: int):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            gen = torch.Generator(device="cuda").manual_seed(seed)
            for _ in range(10):
                x = torch.randn(64, 512, device="cuda", generator=gen)
                results.append(runner.run(x).sum().item())

    threads = [threading.Thread(target=client, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(len(results))


if __name__ == "__main__":
    main()
