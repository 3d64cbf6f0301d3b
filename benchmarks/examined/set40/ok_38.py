"""Multi-scale blob search: one batch on the main stream, filters on side streams."""
import torch
import torch.nn.functional as F


def gaussian(sigma, device):
    r = int(3 * sigma + 0.5)
    t = torch.arange(-r, r + 1, device=device, dtype=torch.float32)
    k = torch.exp(-t * t / (2 * sigma * sigma))
    return k / k.sum()


def blur(x, k):
    r = k.numel() // 2
    x = F.conv2d(F.pad(x, (r, r, 0, 0), mode="reflect"), k.view(1, 1, 1, -1))
    return F.conv2d(F.pad(x, (0, 0, r, r), mode="reflect"), k.view(1, 1, -1, 1))


class Scale:
    def __init__(self, sigma, device):
        self.sigma = sigma
        self.narrow = gaussian(sigma, device)
        self.wide = gaussian(1.6 * sigma, device)
        self.stream = torch.cuda.Stream(device)

    def respond(self, images):
        return (blur(images, self.narrow) - blur(images, self.wide)) * self.sigma


class BlobFinder:
    def __init__(self, sigmas, device):
        self.device = device
        self.scales = [Scale(s, device) for s in sigmas]
        torch.cuda.current_stream(device).synchronize()

    def prepare(self, raw):
        x = raw.float().unsqueeze(1)
        x = x - x.mean(dim=(2, 3), keepdim=True)
        return x / x.std(dim=(2, 3), keepdim=True).clamp_min(1e-6)

    def __call__(self, raw):
        images = self.prepare(raw)
        main = torch.cuda.current_stream(self.device)
        staged = main.record_event()
        parts = []
        for scale in self.scales:
            staged.wait(scale.stream)
            with torch.cuda.stream(scale.stream):
                parts.append(scale.respond(images))
        for scale, part in zip(self.scales, parts):
            main.wait_stream(scale.stream)
            part.record_stream(main)
        stack = torch.cat(parts, dim=1)
        score, which = stack.max(dim=1)
        return score, which


def peaks(score, k):
    pooled = F.max_pool2d(score.unsqueeze(1), 5, 1, 2).squeeze(1)
    masked = torch.where(score == pooled, score, torch.zeros_like(score))
    return masked.flatten(1).topk(k, dim=1)


@torch.no_grad()
def main(batches=20, batch=8, size=1024, k=50):
    device = torch.device("cuda:0")
    finder = BlobFinder([2.0, 3.0, 4.5, 6.75], device)
    hist = torch.zeros(4, dtype=torch.long, device=device)
    for _ in range(batches):
        raw = torch.randint(0, 4096, (batch, size, size), device=device, dtype=torch.int32)
        score, which = finder(raw)
        _, idx = peaks(score, k)
        picked = which.flatten(1).gather(1, idx)
        hist += torch.bincount(picked.flatten(), minlength=4)
    print("peaks per scale", hist.tolist())


if __name__ == "__main__":
    main()
