"""Graph executor with device placement: small shape computations are placed
in host memory and run by host kernels, everything else runs on the device."""
import torch


class Node:
    def __init__(self, name, fn, inputs, host=False):
        self.name, self.fn, self.inputs, self.host = name, fn, inputs, host


class HostArena:
    def __init__(self, slots=64, width=16):
        self.storage = torch.zeros(slots, width, dtype=torch.int64).pin_memory()
        self.used = 0

    def take(self, n):
        out = self.storage[self.used, :n]
        self.used = (self.used + 1) % self.storage.shape[0]
        return out


class GPUDevice:
    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.compute_stream = torch.cuda.Stream(self.device)
        self.arena = HostArena()

    def to_host_memory(self, t):
        dst = self.arena.take(t.numel())
        dst.copy_(t.reshape(-1), non_blocking=True)
        return dst

    def compute(self, node, args):
        if node.host:
            return node.fn(*args)
        with torch.cuda.stream(self.compute_stream):
            return node.fn(*args)


class Executor:
    def __init__(self, nodes, device):
        self.nodes = nodes
        self.dev = device

    def run(self, feeds):
        values = dict(feeds)
        for node in self.nodes:
            args = []
            for name in node.inputs:
                v = values[name]
                if node.host and v.is_cuda:
                    with torch.cuda.stream(self.dev.compute_stream):
                        v = self.dev.to_host_memory(v)
                args.append(v)
            values[node.name] = self.dev.compute(node, args)
        self.dev.compute_stream.synchronize()
        return values


def build():
    return [
        Node("scores", lambda x, w: (x @ w).sigmoid(), ["x", "w"]),
        Node("counts", lambda s: (s > 0.5).sum(dim=1).topk(4).values, ["scores"]),
        Node("limit", lambda c: int(c.max().item()) // 2 + 1, ["counts"], host=True),
        Node("kept", lambda s, k: s.topk(k, dim=1).values.mean(dim=1), ["scores", "limit"]),
    ]


def main():
    dev = GPUDevice()
    ex = Executor(build(), dev)
    w = torch.randn(2048, 4096, device=dev.device)
    for step in range(10):
        x = torch.randn(512, 2048, device=dev.device) + 0.01 * step
        torch.cuda.synchronize()
        out = ex.run({"x": x, "w": w})
        print(step, out["limit"], float(out["kept"].mean()))


if __name__ == "__main__":
    main()
