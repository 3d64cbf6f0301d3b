import torch


class Speculator:
    """Brings experts into the cache from pinned host memory."""

    def __init__(self, cfg, cache, bank):
        self.cache = cache
        self.bank = bank
        self.depth = cfg.overlap.lookahead
        self.lane = torch.cuda.Stream(device=cfg.device)
        self.missed = 0

    def bring(self, key):
        if self.cache.resident(key):
            return
        seat = self.cache.claim(key)
        if seat is None:
            self.missed += 1
            return
        self.lane.wait_event(seat.vacated)
        with torch.cuda.stream(self.lane):
            seat.data.copy_(self.bank[key], non_blocking=True)
            seat.filled.record()

    def guess(self, layer, picks):
        for step in range(1, self.depth + 1):
            for e in picks:
                if (layer + step, e) in self.bank:
                    self.bring((layer + step, e))

    def require(self, layer, picks):
        for e in picks:
            self.bring((layer, e))
            if not self.cache.resident((layer, e)):
                raise RuntimeError("no seat left")
