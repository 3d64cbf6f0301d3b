import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    def __init__(self, n, size=128):
        self.n = n
        self.size = size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.randint(0, 256, (3, self.size, self.size), dtype=torch.uint8, generator=g)
        return img, i % 10


class PrefetchLoader:
    """Moves uint8 batches to the device and normalizes them one batch ahead."""

    def __init__(self, loader, device, mean, std, dtype=torch.float32):
        self.loader = loader
        self.device = device
        self.dtype = dtype
        self.stream = torch.cuda.Stream(device=device)
        shape = (1, 3, 1, 1)
        self.mean = torch.tensor([x * 255 for x in mean], device=device, dtype=dtype).view(shape)
        self.std = torch.tensor([x * 255 for x in std], device=device, dtype=dtype).view(shape)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        first = True
        images = labels = None
        for next_images, next_labels in self.loader:
            consumer = torch.cuda.current_stream(self.device)
            self.stream.wait_stream(consumer)
            with torch.cuda.stream(self.stream):
                next_images = next_images.to(self.device, non_blocking=True)
                next_labels = next_labels.to(self.device, non_blocking=True)
                next_images = next_images.to(self.dtype).sub_(self.mean).div_(self.std)

            if not first:
                yield images, labels
            else:
                first = False

            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            images = next_images
            labels = next_labels

        if images is not None:
            yield images, labels


def build_model(classes=10):
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    base = DataLoader(RandomImages(4096), batch_size=64, num_workers=4, pin_memory=True, drop_last=True)
    loader = PrefetchLoader(base, device, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    model = build_model().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        running = torch.zeros((), device=device)
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.detach()
        print(epoch, (running / len(loader)).item())


if __name__ == "__main__":
    main()
