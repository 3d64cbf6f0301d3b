"""Multimodal features: uploaded ahead of time, offloaded after the encoder has run."""
from dataclasses import dataclass

import torch


@dataclass
class MultimodalItem:
    hash: int
    feature: torch.Tensor
    uploaded: torch.cuda.Event | None = None
    offloaded: torch.cuda.Event | None = None


class FeatureMover:
    def __init__(self, device):
        self.device = device
        self.h2d_stream = torch.cuda.Stream(device=device)

    def upload(self, items):
        for item in items:
            if item.feature.is_cuda:
                continue
            with torch.cuda.stream(self.h2d_stream):
                if item.offloaded is not None:
                    self.h2d_stream.wait_event(item.offloaded)
                item.feature = item.feature.to(self.device, non_blocking=True)
                item.uploaded = torch.cuda.Event()
                item.uploaded.record()

    def offload(self, items):
        done = torch.cuda.Event()
        for item in items:
            host = torch.empty(item.feature.shape, dtype=item.feature.dtype, pin_memory=True)
            host.copy_(item.feature, non_blocking=True)
            item.feature = host
            item.offloaded = done
        done.record()


class VisionEncoder(torch.nn.Module):
    def __init__(self, patch_dim, hidden, layers=8):
        super().__init__()
        self.proj = torch.nn.Linear(patch_dim, hidden)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(hidden, hidden) for _ in range(layers))

    def forward(self, x):
        x = self.proj(x)
        for block in self.blocks:
            x = x + torch.nn.functional.gelu(block(x))
        return x


class MMWorker:
    def __init__(self, encoder, device="cuda"):
        self.encoder = encoder
        self.mover = FeatureMover(device)
        self.forward_stream = torch.cuda.Stream(device=device)
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        self.embedding_cache = {}

    def embed(self, items):
        outputs = []
        for item in items:
            if item.hash not in self.embedding_cache:
                self.forward_stream.wait_event(item.uploaded)
                self.embedding_cache[item.hash] = self.encoder(item.feature)
            outputs.append(self.embedding_cache[item.hash])
        return torch.cat(outputs)

    @torch.inference_mode()
    def run(self, batches):
        results = []
        self.mover.upload(batches[0])
        for i, batch in enumerate(batches):
            with torch.cuda.stream(self.forward_stream):
                pooled = self.embed(batch).mean(0)
                self.mover.offload(batch)
            if i + 1 < len(batches):
                self.mover.upload(batches[i + 1])
            results.append(pooled)
        self.forward_stream.synchronize()
        return torch.stack([r.float().sum() for r in results]).tolist()


def main():
    encoder = VisionEncoder(1176, 1280).cuda().half()
    batches = []
    for b in range(16):
        items = [MultimodalItem(b * 4 + i, torch.randn(4096, 1176).half().pin_memory()) for i in range(4)]
        batches.append(items)
    print(MMWorker(encoder).run(batches))


if __name__ == "__main__":
    main()
