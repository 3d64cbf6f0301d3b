from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn

_copy_streams = defaultdict(torch.cuda.Stream)


def _get_stream(device):
    return _copy_streams[device]


class ImageList:
    def __init__(self, tensors, image_sizes):
        self.tensors = tensors
        self.image_sizes = image_sizes


def to_image_list(images, divisible=32):
    h = max(im.shape[1] for im in images)
    w = max(im.shape[2] for im in images)
    h, w = (h + divisible - 1) // divisible * divisible, (w + divisible - 1) // divisible * divisible
    batched = torch.zeros(len(images), 3, h, w).pin_memory()
    for im, slot in zip(images, batched):
        slot[:, : im.shape[1], : im.shape[2]].copy_(im)
    return ImageList(batched, [im.shape[1:] for im in images])


def scatter(images, targets, device):
    """Uploads one batch on a background stream."""
    stream = _get_stream(device)
    with torch.cuda.stream(stream):
        tensors = images.tensors.to(device, non_blocking=True)
        targets = [
            {k: v.pin_memory().to(device, non_blocking=True) for k, v in t.items()} for t in targets
        ]
    main_stream = torch.cuda.default_stream(device)
    main_stream.wait_stream(stream)
    tensors.record_stream(main_stream)
    for t in targets:
        for v in t.values():
            v.record_stream(main_stream)
    return ImageList(tensors, images.image_sizes), targets


class Backbone(nn.Module):
    def __init__(self, classes=81):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.body = nn.Conv2d(64, 256, 3, stride=4, padding=1)
        self.rpn = nn.Conv2d(256, 4, 1)
        self.cls = nn.Linear(256, classes)

    def forward(self, images, targets):
        feats = F.relu(self.body(F.relu(self.stem(images.tensors))))
        deltas = self.rpn(feats).mean(dim=(2, 3))
        logits = self.cls(feats.mean(dim=(2, 3)))
        labels = torch.stack([t["labels"][0] for t in targets])
        boxes = torch.stack([t["boxes"][0] for t in targets])
        return {"loss_cls": F.cross_entropy(logits, labels), "loss_box": F.smooth_l1_loss(deltas, boxes)}


def do_train(model, loader, optimizer, device, log_period=20):
    train_stream = torch.cuda.Stream(device)
    train_stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(train_stream):
        for iteration, (images, targets) in enumerate(loader):
            images, targets = scatter(to_image_list(images), targets, device)
            losses = model(images, targets)
            loss = sum(losses.values())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if iteration % log_period == 0:
                print(iteration, {k: round(v.item(), 4) for k, v in losses.items()})
    torch.cuda.current_stream(device).wait_stream(train_stream)


def main(loader):
    device = torch.device("cuda", 0)
    model = Backbone().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    do_train(model, loader, optimizer, device)
