from dataclasses import dataclass, field

import torch


@dataclass
class Config:
    overlap: bool = True
    slots: int = 2
    device: torch.device = field(default_factory=lambda: torch.device("cuda"))


class Sweep:
    """Out-of-core row sweep; copies overlap with compute when enabled."""

    def __init__(self, cfg, host):
        self.cfg = cfg
        self.host = host
        self.main = torch.cuda.current_stream(cfg.device)
        self.copy_in = torch.cuda.Stream(cfg.device) if cfg.overlap else self.main
        self.copy_out = torch.cuda.Stream(cfg.device) if cfg.overlap else self.main
        rows = host.shape[1:]
        self.slots = [torch.zeros(rows, device=cfg.device) for _ in range(cfg.slots)]
        for s in (self.copy_in, self.copy_out):
            s.wait_stream(self.main)

    def _load(self, i):
        with torch.cuda.stream(self.copy_in):
            self.slots[i % self.cfg.slots].copy_(self.host[i], non_blocking=True)
        return self.copy_in.record_event()

    def _store(self, i):
        self.copy_out.wait_stream(self.main)
        with torch.cuda.stream(self.copy_out):
            self.host[i].copy_(self.slots[i % self.cfg.slots], non_blocking=True)
        return self.copy_out.record_event()

    def run(self, fn):
        n = self.host.shape[0]
        loaded = {i: self._load(i) for i in range(min(self.cfg.slots, n))}
        for i in range(n):
            self.main.wait_event(loaded.pop(i))
            fn(self.slots[i % self.cfg.slots])
            stored = self._store(i)
            nxt = i + self.cfg.slots
            if nxt < n:
                self.copy_in.wait_event(stored)
                loaded[nxt] = self._load(nxt)
        self.copy_out.synchronize()
        return self.host


def soften(block):
    block.sub_(block.mean(0)).div_(block.std(0) + 1e-6).tanh_()


def main():
    host = torch.randn(64, 4096, 256).pin_memory()
    for overlap in (True, False):
        sweep = Sweep(Config(overlap=overlap), host)
        for _ in range(2):
            sweep.run(soften)
        print(overlap, host.abs().mean().item())


if __name__ == "__main__":
    main()
