import torch


class HostMirror:
    """Pinned host copy of one device tensor, refreshed on its own lane."""

    def __init__(self, shape, dtype=torch.float32, device="cuda"):
        self.device = torch.device(device)
        self.host = torch.empty(shape, dtype=dtype, pin_memory=True)
        self.lane = torch.cuda.Stream(device=self.device)
        self.event = torch.cuda.Event()
        self.pending = False

    def push(self, src):
        self.lane.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.lane):
            self.host.copy_(src, non_blocking=True)
            self.event.record(self.lane)
        src.record_stream(self.lane)
        self.pending = True

    def finish(self):
        if self.pending:
            self.event.synchronize()
            self.pending = False
        return self.host
