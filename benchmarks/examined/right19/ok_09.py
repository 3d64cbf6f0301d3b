import torch
import torch.nn.functional as F


class Stage:
    def setup(self, shape, device):
        raise NotImplementedError

    def process(self, x):
        raise NotImplementedError


class Denoise(Stage):
    def __init__(self, radius=2, sigma=1.2):
        self.radius = radius
        self.sigma = sigma

    def setup(self, shape, device):
        t = torch.arange(-self.radius, self.radius + 1, device=device, dtype=torch.float32)
        k = torch.exp(-(t / self.sigma) ** 2)
        k = k / k.sum()
        c = shape[1]
        self.kernel = torch.outer(k, k).expand(c, 1, -1, -1).contiguous()
        self.result = torch.empty(shape, device=device)
        self.stream = torch.cuda.Stream(device)
        self.device = device

    def process(self, x):
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self.result.copy_(F.conv2d(x, self.kernel, padding=self.radius, groups=x.size(1)))
        here.wait_stream(self.stream)
        return self.result


class Background(Stage):
    def __init__(self, rate=0.05):
        self.rate = rate

    def setup(self, shape, device):
        self.model = torch.zeros(shape[1:], device=device)
        self.mask = torch.empty(shape, device=device)
        self.stream = torch.cuda.Stream(device)
        self.device = device
        self.updated = torch.cuda.Event()
        torch.cuda.current_stream(device).synchronize()

    def process(self, x):
        begin = torch.cuda.Event()
        begin.record(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(begin)
            delta = (x - self.model).abs()
            self.mask.copy_(delta > 0.25)
            self.model.lerp_(x.mean(dim=0), self.rate)
            self.updated.record(self.stream)
        torch.cuda.current_stream(self.device).wait_event(self.updated)
        return self.mask


class Count(Stage):
    def setup(self, shape, device):
        self.total = torch.zeros(shape[0], device=device)
        self.frames = 0

    def process(self, mask):
        self.total += mask.mean(dim=(1, 2, 3))
        self.frames += 1
        return self.total


class Chain:
    def __init__(self, *stages):
        self.stages = stages

    def initialize(self, shape, device):
        for s in self.stages:
            s.setup(shape, device)

    def __call__(self, x):
        for s in self.stages:
            x = s.process(x)
        return x


def main():
    device = torch.device("cuda")
    shape = (4, 3, 270, 480)
    chain = Chain(Denoise(), Background(), Count())
    chain.initialize(shape, device)
    out = None
    for i in range(500):
        frame = torch.rand(shape, device=device)
        frame[:, :, 40:80, i % 400:i % 400 + 60] += 0.8
        out = chain(frame)
        del frame
    print((out / 500).tolist())


if __name__ == "__main__":
    main()
