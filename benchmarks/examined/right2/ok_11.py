from functools import partial

import torch


class PrefetchLoader:
    """Uploads and normalises the next batch while the current one is used."""

    def __init__(self, loader, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225),
                 device=torch.device("cuda"), dtype=torch.float16):
        self.loader = loader
        self.device = device
        self.dtype = dtype
        self.mean = torch.tensor([v * 255 for v in mean], device=device, dtype=dtype).view(1, 3, 1, 1)
        self.std = torch.tensor([v * 255 for v in std], device=device, dtype=dtype).view(1, 3, 1, 1)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        first = True
        stream = torch.cuda.Stream(device=self.device)
        stream_context = partial(torch.cuda.stream, stream=stream)
        input = target = None

        for next_input, next_target in self.loader:
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with stream_context():
                next_input = next_input.to(device=self.device, non_blocking=True)
                next_target = next_target.to(device=self.device, non_blocking=True)
                next_input = next_input.to(self.dtype).sub_(self.mean).div_(self.std)

            if not first:
                yield input, target
            else:
                first = False

            torch.cuda.current_stream(self.device).wait_stream(stream)
            input = next_input
            target = next_target

        if not first:
            yield input, target
            stream.wait_stream(torch.cuda.current_stream(self.device))


@torch.no_grad()
def validate(model, loader, log):
    model.eval().cuda().half()
    correct = torch.zeros((), dtype=torch.long, device="cuda")
    seen = 0
    for images, labels in PrefetchLoader(loader):
        prediction = model(images).argmax(dim=1)
        correct += (prediction == labels).sum()
        seen += labels.numel()
    log(f"top1 {100.0 * correct.item() / max(seen, 1):.2f}")
