"""Input prefetcher used by the image classification example."""
import torch
import torch.nn as nn
import torchvision.datasets as datasets
import torchvision.models as models
import torchvision.transforms as transforms


def fast_collate(batch):
    images = torch.stack([torch.as_tensor(b[0]) for b in batch])
    targets = torch.tensor([b[1] for b in batch], dtype=torch.int64)
    return images, targets


class data_prefetcher:
    def __init__(self, loader, half=False):
        self.loader = iter(loader)
        self.half = half
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor([123.675, 116.28, 103.53], device="cuda").view(1, 3, 1, 1)
            self.std = torch.tensor([58.395, 57.12, 57.375], device="cuda").view(1, 3, 1, 1)
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = None
            self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            self.next_input = self.next_input.cuda(non_blocking=True)
            self.next_target = self.next_target.cuda(non_blocking=True)
            self.next_input = self.next_input.half() if self.half else self.next_input.float()
            self.next_input = self.next_input.sub_(self.mean).div_(self.std)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        input = self.next_input
        target = self.next_target
        if input is not None:
            input.record_stream(torch.cuda.current_stream())
        if target is not None:
            target.record_stream(torch.cuda.current_stream())
        self.preload()
        return input, target


class AverageMeter:
    def __init__(self):
        self.sum = torch.zeros((), device="cuda")
        self.count = 0

    def update(self, value, n):
        self.sum += value.detach() * n
        self.count += n

    @property
    def avg(self):
        return (self.sum / max(self.count, 1)).item()


def train(loader, model, criterion, optimizer, epoch, print_freq=50):
    losses = AverageMeter()
    model.train()
    prefetcher = data_prefetcher(loader)
    input, target = prefetcher.next()
    i = 0
    while input is not None:
        i += 1
        output = model(input)
        loss = criterion(output, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.update(loss, input.size(0))
        if i % print_freq == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] loss {losses.avg:.4f}")
        input, target = prefetcher.next()


def main(root, epochs=90):
    dataset = datasets.ImageFolder(
        root,
        transforms.Compose([
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]),
    )
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=256, shuffle=True, num_workers=8,
        pin_memory=True, collate_fn=fast_collate, drop_last=True,
    )
    model = models.resnet50().cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for epoch in range(epochs):
        train(loader, model, criterion, optimizer, epoch)
