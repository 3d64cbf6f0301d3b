"""A plugin engine owns its own CUDA stream; torch feeds it and consumes its output."""
import torch
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if rest else None


class PluginEngine:
    def __init__(self, dim, hidden, batch):
        self.handle = check(cudart.cudaStreamCreate())
        self.stream = torch.cuda.ExternalStream(int(self.handle))
        self.w1 = torch.randn(dim, hidden, device="cuda") / dim ** 0.5
        self.w2 = torch.randn(hidden, dim, device="cuda") / hidden ** 0.5
        self.scratch = torch.empty(batch, hidden, device="cuda")

    def enqueue(self, x, y):
        with torch.cuda.stream(self.stream):
            torch.matmul(x, self.w1, out=self.scratch)
            self.scratch.relu_()
            torch.matmul(self.scratch, self.w2, out=y)

    def close(self):
        self.stream.synchronize()
        check(cudart.cudaStreamDestroy(self.handle))


class Session:
    def __init__(self, engine, batch, dim):
        self.engine = engine
        self.x = torch.zeros(batch, dim, device="cuda")
        self.y = torch.zeros(batch, dim, device="cuda")

    def run(self, features):
        self.x.copy_(features)
        self.engine.enqueue(self.x, self.y)
        return self.y.clone()


@torch.no_grad()
def main():
    dim, hidden, batch = 1024, 4096, 256
    engine = PluginEngine(dim, hidden, batch)
    session = Session(engine, batch, dim)
    total = torch.zeros(dim, device="cuda")
    for _ in range(50):
        features = torch.randn(batch, dim, device="cuda")
        total += session.run(features).mean(0)
    print(total.norm().item())
    engine.close()


if __name__ == "__main__":
    main()
