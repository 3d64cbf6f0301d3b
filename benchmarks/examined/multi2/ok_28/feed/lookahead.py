import torch


class Lookahead:
    """next() gives the batch that was started one call before."""

    def __init__(self, source, device, transform=None):
        self.source = iter(source)
        self.device = torch.device(device)
        self.transform = transform or (lambda s: s)
        self.side = torch.cuda.Stream(self.device)
        self._ahead = None
        self._load()

    def _load(self):
        sample = next(self.source, None)
        if sample is None:
            self._ahead = None
            return
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self._ahead = self.transform(sample.pinned().to(self.device))

    def __iter__(self):
        return self

    def __next__(self):
        torch.cuda.current_stream(self.device).wait_stream(self.side)
        batch, self._ahead = self._ahead, None
        if batch is None:
            raise StopIteration
        self._load()
        return batch
