import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class CudaPrefetcher:
    """Copies the next batch while the current one is processed."""

    def __init__(self, loader: DataLoader, device: torch.device):
        self._loader = loader
        self.size = len(loader)
        self.device = device
        self.stream = torch.cuda.Stream(torch.device(device))
        self.next_input = None
        self.next_target = None

    def _init_data(self) -> None:
        self.loader = iter(self._loader)
        self.preload()

    def preload(self) -> None:
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = None
            self.next_target = None
            return
        with torch.cuda.device(self.device):
            with torch.cuda.stream(self.stream):
                self.next_input = self.next_input.cuda(device=self.device, non_blocking=True)
                self.next_target = self.next_target.cuda(device=self.device, non_blocking=True)

    def __iter__(self):
        self._init_data()
        return self

    def __len__(self) -> int:
        return self.size

    def __next__(self):
        with torch.cuda.device(self.device):
            torch.cuda.current_stream().wait_stream(self.stream)
        if self.next_input is None:
            raise StopIteration
        input = self.next_input
        target = self.next_target
        self.preload()
        return input, target


class PatchDataset(Dataset):
    """Grayscale drawings with per-pixel line parameters."""

    def __init__(self, length: int, side: int = 256):
        self.length = length
        self.side = side

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, idx: int):
        generator = torch.Generator().manual_seed(idx)
        image = torch.rand(1, self.side, self.side, generator=generator)
        return image, (image > 0.5).float()


class Cleaner(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x):
        return self.net(x)


def train(epochs: int = 3, batch_size: int = 32) -> float:
    device = torch.device("cuda", 0)
    loader = DataLoader(PatchDataset(4096), batch_size=batch_size, num_workers=4, pin_memory=True, drop_last=True)
    model = Cleaner().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    running = torch.zeros((), device=device)
    for _ in range(epochs):
        for images, targets in CudaPrefetcher(loader, device):
            loss = nn.functional.binary_cross_entropy_with_logits(model(images), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.detach()
    return running.item()
