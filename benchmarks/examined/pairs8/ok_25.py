import abc

import torch
import torch.nn as nn


class UploadedBatch:
    def __init__(self, host, stream):
        with torch.cuda.stream(stream):
            self.data = host.to("cuda", non_blocking=True)
            self.event = torch.cuda.Event()
            self.event.record()


class BaseBackend(abc.ABC):
    def __init__(self):
        self.upload_stream = torch.cuda.Stream()

    def upload(self, host):
        return UploadedBatch(host, self.upload_stream)

    def before_forward(self, batch):
        stream = torch.cuda.current_stream()
        stream.wait_event(batch.event)
        batch.data.record_stream(stream)

    @abc.abstractmethod
    def forward(self, x):
        ...

    @torch.inference_mode()
    def run(self, host):
        batch = self.upload(host)
        self.before_forward(batch)
        return self.forward(batch.data)


class ClipBackend(BaseBackend):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean, device="cuda").view(1, 3, 1, 1)
        self.std = torch.tensor(std, device="cuda").view(1, 3, 1, 1)
        self.visual = nn.Sequential(nn.Conv2d(3, 64, 16, 16), nn.Flatten(2)).cuda()
        self.seen = 0

    def before_forward(self, batch):
        super().before_forward(batch)
        self.seen += batch.data.shape[0]
        batch.data.sub_(self.mean).div_(self.std)

    def forward(self, x):
        return nn.functional.normalize(self.visual(x).mean(-1), dim=-1)


def main():
    backend = ClipBackend((0.48, 0.46, 0.41), (0.27, 0.26, 0.28))
    gallery = [backend.run(torch.rand(16, 3, 224, 224).pin_memory()) for _ in range(6)]
    sims = torch.cat(gallery) @ gallery[0].T
    print(backend.seen, sims.amax().item())


if __name__ == "__main__":
    main()
