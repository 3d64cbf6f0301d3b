import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray, to_torch_type


@pipeline_def
def train_pipeline(file_root, shard_id, num_shards, crop=224):
    jpegs, labels = fn.readers.file(
        file_root=file_root,
        shard_id=shard_id,
        num_shards=num_shards,
        random_shuffle=True,
        name="Reader",
    )
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.random_resized_crop(images, size=crop)
    images = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[123.7, 116.3, 103.5],
        std=[58.4, 57.1, 57.4],
    )
    return images, labels.gpu()


class DALITrainLoader:
    """Copies pipeline outputs into two alternating sets of torch tensors."""

    def __init__(self, pipe, device: torch.device):
        self.pipe = pipe
        self.pipe.build()
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self._slots = [None, None]
        self._turn = 0
        meta = pipe.reader_meta("Reader")
        self.length = meta["epoch_size_padded"] // meta["number_of_shards"] // pipe.max_batch_size

    def __len__(self):
        return self.length

    def _targets(self, outputs):
        slot = self._slots[self._turn]
        if slot is None:
            slot = [
                torch.empty(out.shape(), dtype=to_torch_type[out.dtype], device=self.device)
                for out in outputs
            ]
            self._slots[self._turn] = slot
        self._turn = 1 - self._turn
        return slot

    def __iter__(self):
        for _ in range(self.length):
            outputs = [out.as_tensor() for out in self.pipe.run()]
            targets = self._targets(outputs)
            self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
            for out, target in zip(outputs, targets):
                feed_ndarray(out, target, cuda_stream=self.copy_stream)
            yield targets[0], targets[1].view(-1)


def train_epoch(model, optimizer, loader, criterion):
    model.train()
    for images, labels in loader:
        loss = criterion(model(images), labels.long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(root, rank, world):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    pipe = train_pipeline(
        root, rank, world, batch_size=128, num_threads=8, device_id=rank, prefetch_queue_depth=2
    )
    loader = DALITrainLoader(pipe, device)
    model = torch.hub.load("pytorch/vision", "resnet50").to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train_epoch(model, optimizer, loader, torch.nn.CrossEntropyLoss())
