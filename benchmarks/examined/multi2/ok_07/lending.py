import torch


def lend(obj, stream):
    """Make everything inside obj usable on stream; returns obj."""
    if isinstance(obj, torch.Tensor):
        if obj.is_cuda:
            obj.record_stream(stream)
    elif isinstance(obj, dict):
        for v in obj.values():
            lend(v, stream)
    elif isinstance(obj, (list, tuple)):
        for v in obj:
            lend(v, stream)
    return obj


class Beside:
    """with Beside(stream, x): body runs behind what was issued so far."""

    def __init__(self, stream, *objs):
        self.stream = stream
        self.objs = objs
        self._ctx = None

    def __enter__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        lend(self.objs, self.stream)
        self._ctx = torch.cuda.stream(self.stream)
        self._ctx.__enter__()
        return self.stream

    def __exit__(self, *exc):
        self._ctx.__exit__(*exc)
        self.objs = ()
        return False
