"""Host-side parking place for a set of device tensors."""
import torch


class HostStash:
    def __init__(self, tensors):
        self.slots = [
            torch.empty(t.shape, dtype=t.dtype, device="cpu", pin_memory=True)
            for t in tensors
        ]
        self.filled = False

    def nbytes(self):
        return sum(s.numel() * s.element_size() for s in self.slots)

    def put(self, tensors):
        if self.filled:
            raise RuntimeError("stash is in use")
        for slot, t in zip(self.slots, tensors):
            slot.copy_(t, non_blocking=True)
        self.filled = True

    def give_back(self, tensors):
        if not self.filled:
            raise RuntimeError("nothing stashed")
        for slot, t in zip(self.slots, tensors):
            t.copy_(slot, non_blocking=True)
        self.filled = False

    def __len__(self):
        return len(self.slots)

    def __repr__(self):
        state = "filled" if self.filled else "empty"
        return f"HostStash({len(self)} tensors, {self.nbytes() / 2 ** 20:.1f} MiB, {state})"
