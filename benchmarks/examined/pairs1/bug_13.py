"""Vision tower of a VLM on a stream of its own, joined before the language model."""
import torch
from torch import nn


class VisionTower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patch = nn.Linear(588, width)
        self.blocks = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(8)])

    def forward(self, pixels):
        return self.blocks(self.patch(pixels))


class MultiModalRunner:
    def __init__(self, width=1024, vocab=32000):
        self.vision = VisionTower(width).cuda().eval()
        self.embed = nn.Embedding(vocab, width).cuda()
        self.lm = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)]).cuda()
        self.encoder_stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def _encode(self, pixels):
        main = torch.cuda.current_stream()
        self.encoder_stream.wait_stream(main)
        with torch.cuda.stream(self.encoder_stream):
            features = self.vision(pixels)
        features.record_stream(main)
        pixels.record_stream(self.encoder_stream)
        return features

    def forward(self, ids, pixels, image_pos):
        features = self._encode(pixels)
        hidden = self.embed(ids)
        self.encoder_stream.wait_stream(torch.cuda.current_stream())
        hidden[image_pos : image_pos + features.shape[0]] = features
        return self.lm(hidden)


@torch.inference_mode()
def main(requests=32):
    runner = MultiModalRunner()
    scores = []
    for i in range(requests):
        ids = torch.randint(0, 32000, (1024,), device="cuda")
        pixels = torch.rand(576, 588, device="cuda")
        scores.append(runner.forward(ids, pixels, 16 + i).mean())
    print(torch.stack(scores).cpu())


if __name__ == "__main__":
    main()
