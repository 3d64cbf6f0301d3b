from contextlib import suppress
from functools import partial

import torch

IMAGENET_DEFAULT_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEFAULT_STD = (0.229, 0.224, 0.225)


class PrefetchLoader:

    def __init__(self, loader, mean=IMAGENET_DEFAULT_MEAN, std=IMAGENET_DEFAULT_STD,
                 channels=3, device=torch.device("cuda"), img_dtype=torch.float32,
                 random_erasing=None):
        shape = (1, channels, 1, 1)
        self.loader = loader
        self.device = device
        self.img_dtype = img_dtype
        self.mean = torch.tensor([x * 255 for x in mean], device=device, dtype=img_dtype).view(shape)
        self.std = torch.tensor([x * 255 for x in std], device=device, dtype=img_dtype).view(shape)
        self.random_erasing = random_erasing
        self.is_cuda = device.type == "cuda" and torch.cuda.is_available()
        if self.is_cuda:
            torch.cuda.synchronize(device)

    def __iter__(self):
        first = True
        if self.is_cuda:
            stream = torch.cuda.Stream(device=self.device)
            stream_context = partial(torch.cuda.stream, stream=stream)
        else:
            stream = None
            stream_context = suppress

        for next_input, next_target in self.loader:

            if stream is not None:
                stream.wait_stream(torch.cuda.current_stream(device=self.device))

            with stream_context():
                next_input = next_input.to(device=self.device, non_blocking=True)
                next_target = next_target.to(device=self.device, non_blocking=True)
                next_input = next_input.to(self.img_dtype).sub_(self.mean).div_(self.std)
                if self.random_erasing is not None:
                    next_input = self.random_erasing(next_input)

            if not first:
                yield input, target
            else:
                first = False

            if stream is not None:
                torch.cuda.current_stream(device=self.device).wait_stream(stream)

            input = next_input
            target = next_target

        yield input, target

    def __len__(self):
        return len(self.loader)


def train_one_epoch(model, loader, optimizer, loss_fn, scaler=None):
    model.train()
    for input, target in loader:
        output = model(input)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
