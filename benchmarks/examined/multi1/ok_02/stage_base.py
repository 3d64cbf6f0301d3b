from collections import deque

import torch


class Stage:
    depth = 2

    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self._lane = torch.cuda.Stream(device=self.device)

    def prepare(self, item):
        return item

    def compute(self, item):
        raise NotImplementedError

    def collect(self, out):
        return out

    def _launch(self, item):
        main = torch.cuda.current_stream(self.device)
        self._lane.wait_stream(main)
        with torch.cuda.stream(self._lane):
            out = self.compute(self.prepare(item))
        item.record_stream(self._lane)
        done = torch.cuda.Event()
        done.record(self._lane)
        return out, done

    def _land(self, pending):
        out, done = pending.popleft()
        main = torch.cuda.current_stream(self.device)
        main.wait_event(done)
        out.record_stream(main)
        return self.collect(out)

    def run(self, items):
        pending = deque()
        for item in items:
            pending.append(self._launch(item))
            if len(pending) >= self.depth:
                yield self._land(pending)
        while pending:
            yield self._land(pending)
