from dataclasses import dataclass


@dataclass(frozen=True)
class GraphConfig:
    batch: int = 64
    frames: int = 3
    size: int = 256
    host_slots: int = 2

    @property
    def shape(self):
        return (self.batch, self.frames, self.size)

    @property
    def nbytes(self):
        n = 4
        for s in self.shape:
            n *= s
        return n

    def check(self):
        if self.host_slots < 1:
            raise ValueError("host_slots must be positive")
        return self
