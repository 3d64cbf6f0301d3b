import contextlib

import torch


class LaneMixin:
    """Objects with a copy stream of their own."""

    _lane = None

    @property
    def lane(self):
        if self._lane is None:
            self._lane = torch.cuda.Stream()
        return self._lane

    @contextlib.contextmanager
    def aside(self):
        lane = self.lane
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            yield lane

    def meet(self):
        torch.cuda.current_stream().wait_stream(self.lane)
