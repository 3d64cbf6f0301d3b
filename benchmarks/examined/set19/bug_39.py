"""Batched JPEG decoding on a decoder stream, feeding an embedding model."""
import math

import torch
from torch import nn


def idct_basis():
    """Matrix that maps 64 DCT coefficients of a block to its 64 pixels."""
    basis = torch.zeros(8, 8)
    for k in range(8):
        scale = math.sqrt(1 / 8) if k == 0 else math.sqrt(2 / 8)
        for n in range(8):
            basis[k, n] = scale * math.cos(math.pi * (2 * n + 1) * k / 16)
    return torch.kron(basis, basis)


class EntropyDecoder:
    """Stand-in for the Huffman stage: fills one pinned coefficient tensor per batch."""

    def __init__(self, height, width):
        self.blocks = (height // 8, width // 8)

    def __call__(self, blobs):
        coeffs = torch.empty(len(blobs), 3, *self.blocks, 64, pin_memory=True)
        for row, seed in zip(coeffs, blobs):
            generator = torch.Generator().manual_seed(seed)
            row.normal_(generator=generator)
        return coeffs


class JpegBatchDecoder:
    def __init__(self, height, width):
        self.height, self.width = height, width
        self.entropy = EntropyDecoder(height, width)
        self.stream = torch.cuda.Stream()
        self.basis = idct_basis().cuda()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _allocate_outputs(self, count):
        return torch.empty(count, 3, self.height, self.width, device="cuda")

    def _decode_batched(self, coeffs, out):
        with torch.cuda.stream(self.stream):
            blocks = coeffs.to("cuda", non_blocking=True) @ self.basis
            n, c, rows, cols, _ = blocks.shape
            tiled = blocks.view(n, c, rows, cols, 8, 8).permute(0, 1, 2, 4, 3, 5)
            out.view(n, c, rows, 8, cols, 8).copy_(tiled)

    def decode(self, blobs):
        coeffs = self.entropy(blobs)
        out = self._allocate_outputs(len(blobs))
        self._decode_batched(coeffs, out)
        torch.cuda.current_stream().wait_stream(self.stream)
        return out


class Embedder:
    def __init__(self, decoder):
        self.decoder = decoder
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2), nn.ReLU(), nn.Conv2d(64, 128, 5, stride=2),
            nn.ReLU(), nn.Conv2d(128, 128, 5), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten()).cuda()

    def embed(self, batches):
        rows = []
        for blobs in batches:
            images = self.decoder.decode(blobs)
            contrast = images.std(dim=(1, 2, 3), keepdim=True)
            features = self.net(images / contrast)
            coarse = nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)
            rows.append(torch.cat([features, coarse], dim=1))
            del images, contrast, features, coarse
        return torch.cat(rows)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    embedder = Embedder(JpegBatchDecoder(512, 512))
    batches = [list(range(i, i + 8)) for i in range(0, 96, 8)]
    vectors = embedder.embed(batches)
    print(vectors.shape, vectors.norm(dim=1).mean().item())


if __name__ == "__main__":
    main()
