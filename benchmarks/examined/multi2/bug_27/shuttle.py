import torch


class Crate:
    def __init__(self, size, dtype):
        self.host = torch.empty(size, dtype=dtype, pin_memory=True)
        self.sealed = torch.cuda.Event()

    def open(self):
        self.sealed.synchronize()
        return self.host


class Shuttle:
    """Carries gradient rows to the host while the device goes on."""

    def __init__(self, rounds=2):
        self.rounds = rounds
        self.track = torch.cuda.Stream()
        self._crates = {}

    def _crate(self, bucket, turn):
        key = bucket.name, turn % self.rounds
        if key not in self._crates:
            self._crates[key] = Crate(len(bucket), bucket.row.dtype)
        return self._crates[key]

    def send(self, bucket, turn):
        crate = self._crate(bucket, turn)
        self.track.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.track):
            crate.host.copy_(bucket.row, non_blocking=True)
            crate.sealed.record(self.track)
        return crate
