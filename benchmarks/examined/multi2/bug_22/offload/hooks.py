import torch
from torch.autograd.graph import saved_tensors_hooks

from .lane import Parked


class SavedOnHost(saved_tensors_hooks):
    """Within the block, large tensors saved for backward go to the host."""

    def __init__(self, lane, min_numel=1 << 20):
        self.lane = lane
        self.min_numel = min_numel
        super().__init__(self._pack, self._unpack)

    def _eligible(self, t):
        return (
            t.is_cuda
            and t.numel() >= self.min_numel
            and not isinstance(t, torch.nn.Parameter)
            and t.is_contiguous()
        )

    def _pack(self, t):
        if not self._eligible(t):
            return t
        return self.lane.push(t)

    def _unpack(self, packed):
        if isinstance(packed, Parked):
            return self.lane.pull(packed)
        return packed

    def budget(self, limit_bytes):
        """Whether the lane has moved no more than the limit so far."""
        return self.lane.bytes_out <= limit_bytes

    def __repr__(self):
        return f"SavedOnHost(min_numel={self.min_numel})"
