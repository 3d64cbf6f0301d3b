import torch


class WeightSlot:
    """Device room for the weights of one layer at a time."""

    def __init__(self, numel, dtype=torch.float16):
        self.flat = torch.empty(numel, dtype=dtype, device="cuda")
        self.loaded = torch.cuda.Event()
        self.vacated = torch.cuda.Event()
        self.holder = None

    def load(self, index, host, stream):
        stream.wait_event(self.vacated)
        with torch.cuda.stream(stream):
            self.flat.copy_(host, non_blocking=True)
        self.loaded.record(stream)
        self.holder = index

    def enter(self, index):
        if self.holder != index:
            raise LookupError(f"layer {index} is not resident")
        self.loaded.wait()
        return self.flat

    def leave(self):
        self.vacated.record()

    @property
    def nbytes(self):
        return self.flat.numel() * self.flat.element_size()

    def __repr__(self):
        held = "empty" if self.holder is None else f"layer {self.holder}"
        return f"WeightSlot({self.nbytes / 2 ** 20:.0f} MiB, {held})"
