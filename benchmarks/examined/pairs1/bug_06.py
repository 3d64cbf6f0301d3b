"""Streams transformer blocks of an image model between pinned memory and the GPU."""
import torch
from torch import nn


class OffloadGroup:
    def __init__(self, block, transfer_stream, record_stream=True):
        self.block = block
        self.transfer_stream = transfer_stream
        self.record = record_stream
        self.pinned = [(p, p.data.pin_memory()) for p in block.parameters()]
        self.release()

    def _move(self, host):
        tensor = host.to("cuda", non_blocking=True)
        if self.record:
            tensor.record_stream(torch.cuda.current_stream())
        return tensor

    def fetch(self):
        with torch.cuda.stream(self.transfer_stream):
            for p, host in self.pinned:
                p.data = self._move(host)

    def release(self):
        for p, host in self.pinned:
            p.data = host


class OffloadedTransformer(nn.Module):
    def __init__(self, depth=16, width=1536):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(depth)
        )
        self.stream = torch.cuda.Stream()
        self.groups = [OffloadGroup(b, self.stream) for b in self.blocks]

    def forward(self, x):
        self.groups[0].fetch()
        for i, block in enumerate(self.blocks):
            torch.cuda.current_stream().wait_stream(self.stream)
            if i + 1 < len(self.groups):
                self.groups[i + 1].fetch()
            x = x + block(x)
            self.groups[i].release()
        return x


@torch.inference_mode()
def generate(num_inference_steps=20):
    model = OffloadedTransformer()
    latents = torch.randn(512, 1536, device="cuda")
    for t in range(num_inference_steps):
        latents = latents - model(latents) / num_inference_steps
    return latents.cpu()


if __name__ == "__main__":
    print(generate().std())
