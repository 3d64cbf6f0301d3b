import heapq
import itertools

import torch


class Agenda:
    """A heap of (priority, page, event)."""

    def __init__(self):
        self._heap = []
        self._tick = itertools.count()

    def put(self, priority, page, event):
        heapq.heappush(self._heap, (priority, next(self._tick), page, event))

    def take(self):
        _, _, page, event = heapq.heappop(self._heap)
        return page, event

    def __bool__(self):
        return bool(self._heap)


class Refiner:
    def __init__(self, agenda, lanes):
        self.agenda = agenda
        self.lanes = itertools.cycle([torch.cuda.Stream() for _ in range(lanes)])
        self.results = []

    def _on_lane(self, page, event):
        lane = next(self.lanes)
        lane.wait_event(event)
        with torch.cuda.stream(lane):
            page.sub_(page.mean()).div_(page.std() + 1e-5)
            worst = page.abs().amax()
            after = lane.record_event()
        return worst, after

    def drain(self, again):
        while self.agenda:
            page, event = self.agenda.take()
            worst, after = self._on_lane(page, event)
            if again > 0:
                again -= 1
                self.agenda.put(again, page, after)
            else:
                self.results.append((worst, page, after))

    def summary(self):
        here = torch.cuda.current_stream()
        out = []
        for worst, page, after in self.results:
            here.wait_event(after)
            out.append(worst + page.sum())
        values = torch.stack(out).cpu()
        self.results.clear()
        return values


def seed(agenda, n, size):
    for i in range(n):
        page = torch.randn(size, device="cuda").mul_(i + 1)
        agenda.put(i, page, torch.cuda.current_stream().record_event())


def main():
    agenda = Agenda()
    seed(agenda, 9, 1 << 16)
    refiner = Refiner(agenda, 3)
    refiner.drain(again=14)
    print(refiner.summary().tolist())


if __name__ == "__main__":
    main()
