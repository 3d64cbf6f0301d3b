import collections

import torch


class HostSink:
    """Brings token rows over; the host looks at them one step late."""

    def __init__(self, rows, stream, lag=2):
        self.stream = stream
        self.lag = lag
        self.spare = [torch.empty(rows, dtype=torch.long, pin_memory=True)
                      for _ in range(lag + 1)]
        self.flying = collections.deque()
        self.text = [[] for _ in range(rows)]

    def put(self, token):
        page = self.spare.pop()
        with torch.cuda.stream(self.stream):
            page[:len(token)].copy_(token, non_blocking=True)
            landed = self.stream.record_event()
        self.flying.append((page, len(token), landed))
        if len(self.flying) > self.lag:
            self._land()

    def _land(self):
        page, count, landed = self.flying.popleft()
        landed.synchronize()
        for row, value in enumerate(page[:count].tolist()):
            self.text[row].append(value)
        self.spare.append(page)

    def close(self):
        while self.flying:
            self._land()
        return self.text
