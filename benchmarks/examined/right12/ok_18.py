import torch
from torch import nn


class SplitBatchEncoder:
    """Runs slices of one batch on several streams, writing into a shared output."""

    def __init__(self, module, lanes=2, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self._module = module.to(self.device).eval()
        for param in self._module.parameters():
            param.requires_grad_(False)
        self._lanes = [torch.cuda.Stream(self.device) for _ in range(lanes)]

    def encode(self, x):
        count = x.shape[0]
        out = torch.empty(count, self._module.out_features, device=self.device)
        if count == 0:
            return out
        if count < 2 * len(self._lanes):
            return out.copy_(self._module(x))
        caller = torch.cuda.current_stream(self.device)
        bounds = torch.linspace(0, count, len(self._lanes) + 1).long().tolist()
        begin = caller.record_event()
        try:
            for lane, lo, hi in zip(self._lanes, bounds, bounds[1:]):
                with torch.cuda.stream(lane):
                    lane.wait_event(begin)
                    out[lo:hi] = self._module(x[lo:hi])
        finally:
            for lane in self._lanes:
                caller.wait_stream(lane)
        return out

    def update(self, state):
        self._module.load_state_dict(state)


class Encoder(nn.Module):
    def __init__(self, width, out_features):
        super().__init__()
        self.out_features = out_features
        self.net = nn.Sequential(
            nn.Linear(width, 1024), nn.GELU(),
            nn.Linear(1024, 1024), nn.GELU(),
            nn.Linear(1024, out_features),
        )

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


class Index:
    def __init__(self, encoder):
        self.encoder = encoder
        self.rows = []

    def add(self, x):
        self.rows.append(self.encoder.encode(x))

    def search(self, x, k=3):
        bank = torch.cat(self.rows)
        return (self.encoder.encode(x) @ bank.t()).topk(k, dim=1).indices


def main():
    torch.manual_seed(0)
    encoder = SplitBatchEncoder(Encoder(128, 64), lanes=3)
    index = Index(encoder)
    for size in (1000, 5, 64, 333):
        index.add(torch.randn(size, 128, device="cuda"))
    queries = torch.randn(50, 128, device="cuda")
    before = index.search(queries)
    encoder.update(Encoder(128, 64).state_dict())
    after = encoder.encode(queries)
    try:
        encoder.encode(torch.randn(64, 9, device="cuda"))
    except RuntimeError as exc:
        print(type(exc).__name__)
    print(before[:2].tolist(), after.norm(dim=1).mean().item(), encoder.encode(queries[:0]).shape)


if __name__ == "__main__":
    main()
