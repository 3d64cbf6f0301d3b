import cupy as cp


class Uploader:
    def __init__(self, shape, dtype, stream):
        self.stream = stream
        self.device = cp.empty(shape, dtype)
        self.sent = 0

    def send(self, stage):
        self.device.set(stage.host, stream=self.stream)
        self.sent += 1
        return self.device

    @property
    def megabytes(self):
        return self.sent * self.device.nbytes / 1e6

    def rate(self, seconds):
        """Mean throughput in MB/s over the given time."""
        return self.megabytes / seconds if seconds > 0 else 0.0

    def __repr__(self):
        return f"Uploader(sent={self.sent}, {self.megabytes:.1f} MB)"
