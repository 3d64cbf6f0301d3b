import torch


class Bay:
    def __init__(self, shape, device):
        self.state = torch.zeros(shape, device=device)
        self.session = None
        self.pending = None

    def settle(self):
        if self.pending is not None:
            self.session = self.pending.result()
            self.pending = None
        return self.session


class Scheduler:
    """Two bays: one is computed on while the other changes its session."""

    def __init__(self, shape, valet, sessions, device="cuda:0"):
        self.bays = [Bay(shape, device) for _ in range(2)]
        self.valet = valet
        self.sessions = list(sessions)
        self._at = 0

    def _pick(self):
        s = self.sessions[self._at % len(self.sessions)]
        self._at += 1
        return s

    def rotate(self, bay):
        ready = torch.cuda.Event()
        ready.record()
        bay.pending = self.valet.request(bay.state, bay.session, self._pick(), ready)

    def turns(self, count):
        for bay in self.bays:
            self.rotate(bay)
        for t in range(count):
            bay = self.bays[t % 2]
            bay.settle()
            yield bay
            self.rotate(bay)
        for bay in self.bays:
            bay.settle()
