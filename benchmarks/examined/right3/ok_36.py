"""DALI loader with normalization one batch ahead of training."""
import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator


@pipeline_def
def image_pipeline(root: str):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, size=(224, 224))
    return images, labels.gpu()


class BatchAhead:
    def __init__(self, loader: DALIGenericIterator):
        self.loader = loader
        self.stream = torch.cuda.Stream()
        self.raw = None
        self.done = torch.cuda.Event()
        self.mean = torch.tensor([123.7, 116.3, 103.5], device="cuda").view(1, 3, 1, 1)
        self.std = torch.tensor([58.4, 57.1, 57.4], device="cuda").view(1, 3, 1, 1)
        self.stream.wait_stream(torch.cuda.current_stream())

    def _fetch(self):
        if self.raw is not None:
            self.done.synchronize()
            self.raw = None
        with torch.cuda.stream(self.stream):
            try:
                self.raw = next(self.loader)[0]
            except StopIteration:
                return None
            images = self.raw["images"].permute(0, 3, 1, 2).float().sub(self.mean).div(self.std)
            labels = self.raw["labels"].squeeze(-1).long()
            self.done.record()
        return images, labels

    def __iter__(self):
        upcoming = self._fetch()
        while upcoming is not None:
            current = torch.cuda.current_stream()
            current.wait_event(self.done)
            batch = upcoming
            for t in batch:
                t.record_stream(current)
            upcoming = self._fetch()
            yield batch
        self.loader.reset()


def main(root: str = "/data/train"):
    pipe = image_pipeline(root, batch_size=64, num_threads=4, device_id=0)
    loader = DALIGenericIterator([pipe], ["images", "labels"], reader_name="reader")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(16, 1000),
    ).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    ahead = BatchAhead(loader)
    for epoch in range(2):
        for images, labels in ahead:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
