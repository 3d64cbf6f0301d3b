import threading

import torch

_local = threading.local()


def thread_stream():
    stream = getattr(_local, "stream", None)
    if stream is None:
        stream = _local.stream = torch.cuda.Stream()
    return stream


class Walker(threading.Thread):
    """Integrates one batch of random walks on the thread's own stream."""

    def __init__(self, seed, drift, steps, out):
        super().__init__()
        self.seed = seed
        self.drift = drift
        self.steps = steps
        self.out = out

    def run(self):
        with torch.cuda.stream(thread_stream()):
            gen = torch.Generator(device="cuda").manual_seed(self.seed)
            pos = torch.zeros_like(self.out)
            for _ in range(self.steps):
                kick = torch.randn(pos.shape, generator=gen, device="cuda")
                pos += self.drift * 0.01 + kick * 0.1
            self.out.copy_(pos)
        thread_stream().synchronize()


def ensemble(walkers, n, steps):
    drift = torch.linspace(-1, 1, n, device="cuda")
    finals = torch.zeros(walkers, n, device="cuda")
    torch.cuda.current_stream().synchronize()
    threads = [Walker(i, drift, steps, finals[i]) for i in range(walkers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return finals.mean(0), finals.std(0)


def main():
    mean, std = ensemble(8, 100_000, 200)
    slope = torch.diff(mean).mean()
    print(slope.item(), std.mean().item())


if __name__ == "__main__":
    main()
