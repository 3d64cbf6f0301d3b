"""Image classification: loader wrapper that normalizes on the device."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class PrefetchLoader:
    """Uploads and normalizes the next batch while the current one is used."""

    def __init__(self, loader, mean, std, device=torch.device("cuda"), half=False):
        self.loader = loader
        self.device = device
        self.dtype = torch.float16 if half else torch.float32
        self.mean = torch.tensor([v * 255 for v in mean], device=device, dtype=self.dtype).view(1, -1, 1, 1)
        self.std = torch.tensor([v * 255 for v in std], device=device, dtype=self.dtype).view(1, -1, 1, 1)
        self.copy_stream = torch.cuda.Stream(device)
        self.copy_stream.wait_stream(torch.cuda.current_stream(device))

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        first = True
        held = None
        for pixels, label in self.loader:
            with torch.cuda.stream(self.copy_stream):
                pixels = pixels.to(self.device, non_blocking=True)
                label = label.to(self.device, non_blocking=True)
                pixels = pixels.to(self.dtype).sub_(self.mean).div_(self.std)
            if not first:
                yield held
            else:
                first = False
            torch.cuda.current_stream(self.device).wait_stream(self.copy_stream)
            held = (pixels, label)
        if held is not None:
            yield held


def build_loader():
    images = torch.randint(0, 256, (2048, 3, 128, 128), dtype=torch.uint8)
    labels = torch.randint(0, 10, (2048,))
    return DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True, pin_memory=True)


def main():
    loader = PrefetchLoader(build_loader(), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    net = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 256, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10),
    ).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for epoch in range(3):
        for pixels, label in loader:
            loss = nn.functional.cross_entropy(net(pixels), label)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
    torch.cuda.synchronize()
    torch.save(net.state_dict(), "net.pt")


if __name__ == "__main__":
    main()
