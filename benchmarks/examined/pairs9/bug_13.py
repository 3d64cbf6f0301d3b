"""Vision-language prefill: the image tower runs beside the text embedding."""
import torch
from torch import nn


class Overlap:
    """Runs a callable on an auxiliary stream."""

    def __init__(self, device):
        self.aux = torch.cuda.Stream(device)

    def fork(self, fn, *args):
        self.aux.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aux):
            return fn(*args)

    def join(self, *tensors):
        main = torch.cuda.current_stream()
        self.aux.wait_stream(main)
        for t in tensors:
            t.record_stream(main)


class ImageTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 16, 16)
        self.blocks = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(12)])

    def forward(self, pixels):
        return self.blocks(self.patch(pixels).flatten(2).transpose(1, 2))


class VLPrefill(nn.Module):
    def __init__(self, vocab, dim, device):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.vision = ImageTower(dim)
        self.decoder = nn.TransformerEncoderLayer(dim, 8, batch_first=True)
        self.overlap = Overlap(device)

    def forward(self, ids, pixels):
        patches = self.overlap.fork(self.vision, pixels)
        text = self.embed(ids)
        self.overlap.join(patches)
        return self.decoder(torch.cat([patches, text], dim=1))[:, -1]


@torch.inference_mode()
def main():
    device = torch.device("cuda")
    model = VLPrefill(32000, 512, device).to(device).eval()
    outputs = []
    for _ in range(16):
        pixels = torch.randn(4, 3, 448, 448, device=device)
        ids = torch.randint(0, 32000, (4, 64), device=device)
        outputs.append(model(ids, pixels))
        torch.cuda.synchronize(device)
    print(torch.stack(outputs).mean().item())


if __name__ == "__main__":
    main()
