import torch


class Lane:
    """with lane: the body runs on the lane's stream; edges as the config says."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.stream = torch.cuda.Stream(priority=cfg.priority)
        self._outer = None
        self._ctx = None

    def __enter__(self):
        self._outer = torch.cuda.current_stream()
        if self.cfg.fork:
            self.stream.wait_stream(self._outer)
        self._ctx = torch.cuda.stream(self.stream)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        self._ctx.__exit__(*exc)
        if self.cfg.join:
            self._outer.wait_stream(self.stream)
        self._outer = None
        return False


class NoLane:
    """Everything stays on the stream that is current."""

    stream = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False
