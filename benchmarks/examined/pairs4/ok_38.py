"""Start-up probe for batched device copies, used by an offload cache."""
import torch


class CopyProbe:
    """Checks once per device that scattered copies deliver the right bytes."""

    _results = {}

    @classmethod
    def supported(cls, device):
        if device not in cls._results:
            cls._results[device] = cls._probe(device)
        return cls._results[device]

    @staticmethod
    def _probe(device, rows=8, width=4096):
        source = torch.arange(rows * width, dtype=torch.int32, device=device).view(rows, width)
        target = torch.zeros(rows, width, dtype=torch.int32, device=device)
        lane = torch.cuda.Stream(device)
        lane.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(lane):
            for r in reversed(range(rows)):
                target[r].copy_(source[r], non_blocking=True)
        lane.synchronize()
        return bool(torch.equal(target, source))


class ExpertCache:
    def __init__(self, experts, shape, device="cuda:0"):
        self.device = torch.device(device)
        self.store = torch.randn(experts, *shape, device=self.device)
        self.active = torch.zeros(4, *shape, device=self.device)
        self.scattered = CopyProbe.supported(self.device)

    def activate(self, ids):
        if self.scattered:
            for slot, e in enumerate(ids):
                self.active[slot].copy_(self.store[e])
        else:
            self.active.copy_(self.store[ids])
        return self.active


def main():
    busy = torch.randn(4096, 4096, device="cuda:0")
    for _ in range(20):
        busy = torch.tanh(busy @ busy / 64)
    cache = ExpertCache(16, (512, 512))
    out = [cache.activate([i, i + 1, i + 2, i + 3]).mean() for i in range(12)]
    print(cache.scattered, torch.stack(out).tolist(), busy.mean().item())


if __name__ == "__main__":
    main()
