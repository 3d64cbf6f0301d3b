"""Two-device pipeline: activations hop from the first GPU to the second on a copy stream."""
import torch


class CrossDeviceCopy:
    """The copy is issued on a stream of the source device."""

    def __init__(self, src, dst):
        self.src = torch.device(src)
        self.dst = torch.device(dst)
        self.stream = torch.cuda.Stream(device=self.src)

    def __call__(self, tensor):
        self.stream.wait_stream(torch.cuda.current_stream(self.src))
        with torch.cuda.stream(self.stream):
            moved = tensor.to(self.dst, non_blocking=True)
        tensor.record_stream(self.stream)
        return moved


class HostLog:
    """Keeps a small page-locked history of per-micro-batch losses."""

    def __init__(self, size, device):
        self.values = torch.zeros(size, pin_memory=True)
        self.device = torch.device(device)
        self.written = 0

    def push(self, loss):
        self.values[self.written].copy_(loss, non_blocking=True)
        self.written += 1

    def flush(self):
        torch.cuda.current_stream(self.device).synchronize()
        out = self.values[: self.written].tolist()
        self.written = 0
        return out


class TwoStage:
    def __init__(self, dim, depth):
        def stack(device):
            layers = []
            for _ in range(depth):
                layers += [torch.nn.Linear(dim, dim), torch.nn.GELU()]
            return torch.nn.Sequential(*layers).to(device)

        self.first = stack("cuda:0")
        self.second = stack("cuda:1")
        self.copy = CrossDeviceCopy("cuda:0", "cuda:1")

    @torch.no_grad()
    def forward(self, micro_batches, targets, log):
        moved = []
        for i, x in enumerate(micro_batches):
            hidden = self.first(x.pin_memory().to("cuda:0", non_blocking=True))
            moved.append(self.copy(hidden))
            del hidden
            if i > 0:
                self._finish(moved.pop(0), targets[i - 1], log)
        self._finish(moved.pop(0), targets[-1], log)

    def _finish(self, hidden, target, log):
        with torch.cuda.device(1):
            y = self.second(hidden)
            t = target.pin_memory().to("cuda:1", non_blocking=True)
            log.push((y - t).square().mean())


def main(steps=4, micro=8, rows=2048, dim=4096):
    net = TwoStage(dim, 8)
    log = HostLog(micro, "cuda:1")
    for device in (0, 1):
        torch.cuda.synchronize(device)
    for _ in range(steps):
        batches = [torch.randn(rows, dim) for _ in range(micro)]
        targets = [torch.randn(rows, dim) for _ in range(micro)]
        net.forward(batches, targets, log)
        print(log.flush())


if __name__ == "__main__":
    main()
