"""Model split over two devices: activations cross between persistent boundary buffers."""
import torch


class Stage(torch.nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.nn.functional.silu(layer(x))
        return x


class Boundary:
    """One buffer on each side of the cut, rewritten for every micro batch."""

    def __init__(self, shape, src, dst, dtype=torch.float16):
        self.outbox = torch.empty(shape, dtype=dtype, device=src)
        self.inbox = torch.empty(shape, dtype=dtype, device=dst)

    def send(self, x):
        self.outbox.copy_(x)
        self.inbox.copy_(self.outbox, non_blocking=True)
        return self.inbox


class TwoDeviceModel(torch.nn.Module):
    """Micro batches run through device 0 and device 1 in a software pipeline."""

    def __init__(self, dim=4096, depth=8, micro=64, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.devices = [torch.device(d) for d in devices]
        self.first = Stage(dim, depth).half().to(self.devices[0])
        self.second = Stage(dim, depth).half().to(self.devices[1])
        self.micro = micro
        self.boundary = Boundary((micro, dim), *self.devices)
        self.back = Boundary((micro, 1), self.devices[1], self.devices[0], torch.float32)

    @torch.inference_mode()
    def forward(self, x):
        scores = torch.empty(x.shape[0], 1, device=self.devices[0])
        for start in range(0, x.shape[0], self.micro):
            part = x[start : start + self.micro]
            hidden = self.boundary.send(self.first(part))
            with torch.cuda.device(self.devices[1]):
                value = self.second(hidden).float().square().mean(-1, keepdim=True)
            scores[start : start + self.micro].copy_(self.back.send(value))
        return scores


@torch.inference_mode()
def rank_candidates(model, batches, keep=16):
    """Returns the indices of the best rows over all batches."""
    best, index, seen = [], [], 0
    for batch in batches:
        scores = model(batch.to(model.devices[0], torch.float16)).squeeze(-1)
        top = scores.topk(min(keep, scores.numel()))
        best.append(top.values)
        index.append(top.indices + seen)
        seen += batch.shape[0]
    order = torch.cat(best).topk(keep).indices
    return torch.cat(index)[order].tolist()


def main():
    if torch.cuda.device_count() < 2:
        raise SystemExit("needs two devices")
    model = TwoDeviceModel()
    batches = [torch.randn(1024, 4096) for _ in range(8)]
    print(rank_candidates(model, batches))


if __name__ == "__main__":
    main()
