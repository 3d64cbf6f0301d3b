"""Image classification on DALI batches; normalization runs ahead of the model."""
import torch
import torch.nn as nn
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator


@pipeline_def(num_threads=8, device_id=0)
def image_pipeline(root: str):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, resize_x=224, resize_y=224)
    return fn.transpose(images, perm=[2, 0, 1]), labels.gpu()


class Normalizer:
    """Holds one normalized batch ready for the next step."""

    def __init__(self, loader: DALIGenericIterator):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor([123.7, 116.3, 103.5], device="cuda").view(1, 3, 1, 1)
        self.std = torch.tensor([58.4, 57.1, 57.4], device="cuda").view(1, 3, 1, 1)
        self.stream.wait_stream(torch.cuda.current_stream())
        self.images = None
        self.labels = None

    def preload(self) -> bool:
        with torch.cuda.stream(self.stream):
            try:
                data = next(self.loader)[0]
            except StopIteration:
                self.images = None
                return False
            self.images = data["image"].float().sub_(self.mean).div_(self.std)
            self.labels = data["label"].view(-1).long()
        return True

    def pop(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        images, labels = self.images, self.labels
        self.images = self.labels = None
        return images, labels


class Trainer:
    def __init__(self, model: nn.Module, lr: float = 0.1):
        self.model = model.cuda()
        self.criterion = nn.CrossEntropyLoss().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.compute = torch.cuda.Stream()
        self.total = torch.zeros((), device="cuda")
        self.compute.wait_stream(torch.cuda.current_stream())

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.cuda.stream(self.compute):
            images.record_stream(self.compute)
            labels.record_stream(self.compute)
            loss = self.criterion(self.model(images), labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.total = self.total + loss.detach()


def run_epoch(trainer: Trainer, source: Normalizer) -> int:
    steps = 0
    more = source.preload()
    while more:
        images, labels = source.pop()
        trainer.step(images, labels)
        steps += 1
        more = source.preload()
    trainer.compute.synchronize()
    return steps


def main() -> None:
    pipe = image_pipeline("/data/train", batch_size=128)
    pipe.build()
    loader = DALIGenericIterator([pipe], ["image", "label"], reader_name="reader", auto_reset=True)
    net = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)
    )
    trainer = Trainer(net)
    for epoch in range(5):
        steps = run_epoch(trainer, Normalizer(loader))
        print(epoch, steps, (trainer.total / max(steps, 1)).item())


if __name__ == "__main__":
    main()
