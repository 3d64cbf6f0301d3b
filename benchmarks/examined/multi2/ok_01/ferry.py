import torch

IN = "in/{}"
OUT = "out/{}"


class Ferry:
    """Carries layer weights from page-locked memory into a few berths."""

    def __init__(self, host_layers, book, berths=2, device="cuda"):
        self.host_layers = host_layers
        self.book = book
        first = host_layers[0]
        self.berths = [torch.empty_like(first, device=device) for _ in range(berths)]
        self.way = torch.cuda.Stream()
        self.way.wait_stream(torch.cuda.current_stream())
        self._cursor = 0

    def _berth(self, k):
        return k % len(self.berths)

    def send(self, k):
        b = self._berth(k)
        self.book.hold(OUT.format(b), self.way)
        with torch.cuda.stream(self.way):
            self.berths[b].copy_(self.host_layers[k], non_blocking=True)
        self.book.mark(IN.format(b), self.way)

    def land(self, k):
        b = self._berth(k)
        self.book.hold(IN.format(b))
        return self.berths[b]

    def leave(self, k):
        self.book.mark(OUT.format(self._berth(k)))

    @property
    def nbytes(self):
        return sum(b.numel() * b.element_size() for b in self.berths)
