"""Prefetching loader: batches are copied one ahead on a side stream."""
import torch


class DeviceLoader:
    def __init__(self, loader, device="cuda", mean=127.5, std=127.5):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.mean = torch.full((1, 3, 1, 1), mean, device=self.device)
        self.inv_std = torch.full((1, 3, 1, 1), 1.0 / std, device=self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def __len__(self):
        return len(self.loader)

    def _load(self, images, labels):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            images = images.to(self.device, non_blocking=True)
            labels = labels.to(self.device, non_blocking=True)
            images = images.float().sub_(self.mean).mul_(self.inv_std)
        return images, labels

    def __iter__(self):
        ready = None
        for images, labels in self.loader:
            incoming = self._load(images, labels)
            if ready is not None:
                yield ready
            ready = None
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            ready = incoming
            del incoming
        if ready is not None:
            yield ready


def make_loader(dataset, batch_size, workers=8):
    base = torch.utils.data.DataLoader(
        dataset, batch_size=batch_size, shuffle=True, num_workers=workers,
        pin_memory=True, drop_last=True, persistent_workers=workers > 0,
    )
    return DeviceLoader(base)


def train(model, dataset, epochs=1, batch_size=256):
    model = model.cuda()
    loader = make_loader(dataset, batch_size)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_fn = torch.nn.CrossEntropyLoss()
    seen = torch.zeros((), device="cuda")
    for _ in range(epochs):
        for images, labels in loader:
            logits = model(images)
            loss = loss_fn(logits, labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            seen += (logits.argmax(dim=1) == labels).sum()
    return seen.item() / max(1, epochs * len(loader) * batch_size)
