import torch
from torch import nn


def mlp(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers)


class TwoDevicePipeline(nn.Module):
    """First half of the layers on one device, second half on another."""

    def __init__(self, width, depth, chunks=4, first="cuda:0", second="cuda:1"):
        super().__init__()
        self.first_device = torch.device(first)
        self.second_device = torch.device(second)
        self.chunks = chunks
        self.front = mlp(width, depth).to(self.first_device)
        self.back = mlp(width, depth).to(self.second_device)

    def forward(self, x):
        x = x.to(self.first_device)
        parts = x.chunk(self.chunks)
        hidden = self.front(parts[0]).to(self.second_device, non_blocking=True)
        outputs = []
        for part in parts[1:]:
            following = self.front(part).to(self.second_device, non_blocking=True)
            outputs.append(self.back(hidden))
            hidden = following
        outputs.append(self.back(hidden))
        return torch.cat(outputs)


class LanedPipeline:
    """The same model driven from one stream on each device."""

    def __init__(self, model):
        self.model = model
        self.lane0 = torch.cuda.Stream(model.first_device)
        self.lane1 = torch.cuda.Stream(model.second_device)

    @torch.no_grad()
    def infer(self, x):
        home0 = torch.cuda.current_stream(self.model.first_device)
        home1 = torch.cuda.current_stream(self.model.second_device)
        self.lane0.wait_stream(home0)
        self.lane0.wait_stream(home1)
        self.lane1.wait_stream(home1)
        try:
            with torch.cuda.stream(self.lane0), torch.cuda.stream(self.lane1):
                out = self.model(x)
        finally:
            home0.wait_stream(self.lane0)
            home1.wait_stream(self.lane1)
            home1.wait_stream(self.lane0)
        out.record_stream(home1)
        return out


def main():
    if torch.cuda.device_count() < 2:
        raise SystemExit("two devices are needed")
    torch.manual_seed(0)
    model = TwoDevicePipeline(512, 4)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(20):
        x = torch.randn(256, 512).pin_memory()
        target = x.flip(1).pin_memory().to(model.second_device, non_blocking=True)
        loss = nn.functional.mse_loss(model(x), target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(loss.item())
    lanes = LanedPipeline(model)
    x = torch.randn(96, 512, device=model.first_device)
    out = lanes.infer(x)
    with torch.no_grad():
        print((out - model(x)).abs().max().item())


if __name__ == "__main__":
    main()
