import time
from collections import OrderedDict

import torch


class Spool:
    """Rows leave the device in the background and are read once complete."""

    def __init__(self, rows, width):
        self.stream = torch.cuda.Stream()
        self.rows = rows
        self.host = torch.zeros(rows, width).pin_memory()
        self.busy = OrderedDict()
        self.idle = list(range(rows))

    def _reap(self):
        for key, (row, event) in list(self.busy.items()):
            if not event.query():
                break
            del self.busy[key]
            yield key, self.host[row].clone()
            self.idle.append(row)

    def offer(self, key, values):
        finished = list(self._reap())
        while not self.idle:
            time.sleep(1e-4)
            finished.extend(self._reap())
        row = self.idle.pop()
        self.stream.wait_stream(torch.cuda.current_stream())
        values.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            self.host[row].copy_(values, non_blocking=True)
            self.busy[key] = (row, self.stream.record_event())
        return finished

    def close(self):
        finished = []
        while self.busy:
            finished.extend(self._reap())
            time.sleep(1e-4)
        return finished


def main():
    spool = Spool(4, 4096)
    best = {}
    state = torch.randn(4096, device="cuda")
    rotate = torch.linalg.qr(torch.randn(4096, 4096, device="cuda")).Q

    def note(items):
        for key, row in items:
            best[key] = row.abs().max().item()

    for step in range(100):
        state = rotate @ state
        note(spool.offer(step, state))
    note(spool.close())
    print(max(best, key=best.get), len(best))


if __name__ == "__main__":
    main()
