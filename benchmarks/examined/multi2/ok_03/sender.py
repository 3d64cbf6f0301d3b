import torch


class Meter:
    """Counts what has gone up."""

    def __init__(self):
        self.groups = 0
        self.ids = 0

    def note(self, length):
        self.groups += 1
        self.ids += length

    @property
    def mean(self):
        return self.ids / max(self.groups, 1)


def metered(groups, meter):
    for ids, length in groups:
        meter.note(length)
        yield ids, length


def device_groups(loop, device, stream):
    """Yield (ids, length) with ids usable on the caller's current stream."""
    while True:
        cell = loop.ready.get()
        if cell is None:
            return
        with torch.cuda.stream(stream):
            ids = cell.host.to(device, non_blocking=True)
            cell.sent.record(stream)
        length = cell.length
        here = torch.cuda.current_stream(device)
        here.wait_event(cell.sent)
        loop.recycle(cell)
        ids.record_stream(here)
        yield ids, length
