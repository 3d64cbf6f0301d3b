from collections import deque

import torch


class Ahead:
    """Iterates over device batches and keeps `depth` of them on the way."""

    def __init__(self, source, device, depth=1):
        self.source = iter(source)
        self.device = torch.device(device)
        self.depth = depth
        self.belt = torch.cuda.Stream(self.device)
        self._coming = deque()
        self._host = deque(maxlen=8)

    def _start(self):
        host = next(self.source, None)
        if host is None:
            return
        host = host.pinned()
        with torch.cuda.stream(self.belt):
            batch = host.on(self.device)
            mark = self.belt.record_event()
        self._host.append(host)
        self._coming.append((batch, mark))

    def __iter__(self):
        while len(self._coming) < self.depth:
            self._start()
        while self._coming:
            batch, mark = self._coming.popleft()
            mark.wait()
            self._start()
            yield batch
            del batch
