"""4-bit weights are expanded one layer ahead; consumers receive them through a handle."""
import torch
import torch.nn.functional as F


class Expanded:
    def __init__(self, out, done):
        self.out = out
        self.done = done

    def result(self):
        if self.done.query():
            torch.cuda.current_stream().wait_event(self.done)
        return self.out


class PackedLinear:
    def __init__(self, dim):
        self.packed = torch.randint(0, 256, (dim, dim // 2), dtype=torch.uint8, device="cuda")
        self.scale = torch.rand(dim, 1, device="cuda") / dim

    def expand(self, out):
        low = (self.packed & 15).to(out.dtype) - 8
        high = (self.packed >> 4).to(out.dtype) - 8
        torch.stack([low, high], dim=-1, out=out.view(*self.packed.shape, 2))
        out.mul_(self.scale)


class Expander:
    def __init__(self, dim, slots=2):
        self.stream = torch.cuda.Stream()
        self.buffers = [torch.empty(dim, dim, device="cuda") for _ in range(slots)]

    def submit(self, index, layer):
        self.stream.wait_stream(torch.cuda.current_stream())
        out = self.buffers[index % len(self.buffers)]
        with torch.cuda.stream(self.stream):
            layer.expand(out)
            done = torch.cuda.Event()
            done.record()
        return Expanded(out, done)


class Stack:
    def __init__(self, dim, depth):
        self.layers = [PackedLinear(dim) for _ in range(depth)]
        self.expander = Expander(dim)

    def __call__(self, x):
        ahead = self.expander.submit(0, self.layers[0])
        for i in range(len(self.layers)):
            handle = ahead
            if i + 1 < len(self.layers):
                ahead = self.expander.submit(i + 1, self.layers[i + 1])
            x = F.relu(x @ handle.result())
        return x


@torch.inference_mode()
def main():
    net = Stack(4096, 10)
    x = torch.randn(32, 4096, device="cuda")
    for _ in range(10):
        x = F.layer_norm(net(x), (4096,))
    print(x.std().item())


if __name__ == "__main__":
    main()
