from dataclasses import dataclass, field


@dataclass
class Overlap:
    routed_aside: bool = True
    lookahead: int = 2


@dataclass
class MoEConfig:
    hidden: int = 1024
    inner: int = 4096
    experts: int = 16
    seats: int = 4
    top: int = 2
    layers: int = 6
    device: str = "cuda:0"
    overlap: Overlap = field(default_factory=Overlap)

    @property
    def expert_shape(self):
        return (2, self.inner, self.hidden)
