from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Options:
    device: str = "cuda:0"
    layers: int = 6
    hidden: int = 1024
    heads: int = 16
    context: int = 8192
    chunk: int = 2048
    own_lane: bool = False

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def compute_lane(self):
        device = torch.device(self.device)
        if self.own_lane:
            raise NotImplementedError("chunks are handed over on the default stream")
        return torch.cuda.default_stream(device)
