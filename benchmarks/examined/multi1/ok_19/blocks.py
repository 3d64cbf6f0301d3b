import torch


class BlockStore:
    def __init__(self, count, shape, dtype=torch.float16, device="cuda"):
        self.pool = torch.zeros((count, *shape), dtype=dtype, device=device)
        self._mover = torch.cuda.Stream(device=self.pool.device)
        self._vacated = {b: torch.cuda.Event() for b in range(count)}
        self._free = list(range(count))
        self._host = {}

    def available(self):
        return len(self._free)

    def take(self):
        b = self._free.pop(0)
        torch.cuda.current_stream(self.pool.device).wait_event(self._vacated[b])
        return b

    def give(self, b):
        self._vacated[b].record(torch.cuda.current_stream(self.pool.device))
        self._free.append(b)

    def page_out(self, key, b):
        src = self.pool[b]
        buf = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
        self._mover.wait_stream(torch.cuda.current_stream(self.pool.device))
        with torch.cuda.stream(self._mover):
            buf.copy_(src, non_blocking=True)
            self._vacated[b].record(self._mover)
        self._host[key] = buf
        self._free.append(b)

    def page_in(self, key):
        b = self.take()
        here = torch.cuda.current_stream(self.pool.device)
        self._mover.wait_stream(here)
        with torch.cuda.stream(self._mover):
            self.pool[b].copy_(self._host.pop(key), non_blocking=True)
        here.wait_stream(self._mover)
        return b
