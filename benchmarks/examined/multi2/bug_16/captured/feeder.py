import torch


class Feeder:
    """Moves host batches to fixed device places on a copy stream."""

    def __init__(self, loader, places):
        self.loader = iter(loader)
        self.places = places
        self.stream = torch.cuda.Stream()
        self.ready = torch.cuda.Event()
        self.exhausted = False

    def advance(self) -> bool:
        try:
            batch = next(self.loader)
        except StopIteration:
            self.exhausted = True
            return False
        with torch.cuda.stream(self.stream):
            for place, host in zip(self.places, batch):
                place.copy_(host, non_blocking=True)
            self.ready.record()
        return True

    def restart(self, loader):
        """Begin a new epoch."""
        self.loader = iter(loader)
        self.exhausted = False
        return self

    def __repr__(self):
        shapes = ", ".join(str(tuple(p.shape)) for p in self.places)
        state = "exhausted" if self.exhausted else "running"
        return f"Feeder({shapes}; {state})"
