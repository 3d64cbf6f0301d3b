"""Encoder on one GPU, decoder on another; the encoder has a stream of its own."""
import torch
from torch import nn


class EncoderWorker:
    def __init__(self, dim, depth, device):
        self.device = torch.device(device)
        self.net = nn.Sequential(*[nn.Linear(dim, dim) for _ in range(depth)]).to(self.device)
        self.stream = torch.cuda.Stream(self.device)
        self.latest = None

    def encode(self, x):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            memory = self.net(x)
        x.record_stream(self.stream)
        self.latest = memory
        return memory

    def barrier(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class DecoderWorker:
    def __init__(self, dim, device):
        self.device = torch.device(device)
        self.attn = nn.MultiheadAttention(dim, 8, batch_first=True).to(self.device)
        self.query = torch.randn(1, 16, dim, device=self.device)

    def decode(self, memory):
        q = self.query.expand(memory.shape[0], -1, -1)
        out, _ = self.attn(q, memory, memory, need_weights=False)
        return out.mean(1)


class Captioner:
    def __init__(self, dim=512):
        self.encoder = EncoderWorker(dim, 24, "cuda:0")
        self.decoder = DecoderWorker(dim, "cuda:1")

    def __call__(self, patches):
        memory = self.encoder.encode(patches)
        local = memory.to(self.decoder.device, non_blocking=True)
        self.encoder.barrier()
        return self.decoder.decode(local)


@torch.inference_mode()
def main():
    model = Captioner()
    captions = []
    for _ in range(25):
        patches = torch.randn(8, 576, 512, device="cuda:0")
        captions.append(model(patches))
    print(torch.stack(captions).mean().item())


if __name__ == "__main__":
    main()
