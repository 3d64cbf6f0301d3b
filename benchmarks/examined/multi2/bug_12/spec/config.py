from dataclasses import dataclass, field


@dataclass
class LaneConfig:
    priority: int = -1
    fork: bool = True
    join: bool = False


@dataclass
class SpecConfig:
    vocab: int = 8192
    draft_dim: int = 512
    target_dim: int = 2048
    guesses: int = 5
    batch: int = 32
    lane: LaneConfig = field(default_factory=LaneConfig)

    @classmethod
    def small(cls, **kw):
        kw.setdefault("vocab", 4096)
        kw.setdefault("batch", 8)
        return cls(**kw)

    def check(self):
        if self.guesses < 1:
            raise ValueError("at least one guess")
        if self.draft_dim > self.target_dim:
            raise ValueError("the draft should be the smaller one")
        return self

    @property
    def tokens_per_step(self):
        return self.batch * (self.guesses + 1)
