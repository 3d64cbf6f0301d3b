"""Pretraining loader that hands DALI outputs to PyTorch without an extra copy."""
import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from torch.utils import dlpack as torch_dlpack


@pipeline_def
def jpeg_pipeline(root, crop, shard_id, num_shards):
    jpegs, labels = fn.readers.file(
        file_root=root, random_shuffle=True, shard_id=shard_id, num_shards=num_shards, name="Reader"
    )
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.random_resized_crop(images, size=(crop, crop))
    images = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        mirror=fn.random.coin_flip(),
    )
    return images, labels.gpu()


def as_torch(tensor_list):
    return torch_dlpack.from_dlpack(tensor_list.as_tensor()._expose_dlpack_capsule())


class DaliLoader:
    def __init__(self, pipe, size):
        self.pipe = pipe
        self.size = size
        self.pipe.build()
        self.pipe.schedule_run()

    def __len__(self):
        return self.size // self.pipe.max_batch_size

    def next_batch(self):
        images, labels = self.pipe.share_outputs()
        batch = as_torch(images), as_torch(labels).view(-1)
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return batch

    def __iter__(self):
        for _ in range(len(self)):
            yield self.next_batch()


class MAE(torch.nn.Module):
    def __init__(self, dim=768, patch=16, depth=12):
        super().__init__()
        self.patch = patch
        self.embed = torch.nn.Conv2d(3, dim, patch, stride=patch)
        layer = torch.nn.TransformerEncoderLayer(dim, 12, 4 * dim, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, depth)
        self.head = torch.nn.Linear(dim, 3 * patch * patch)

    def target(self, images):
        p = self.patch
        b, c, h, w = images.shape
        x = images.reshape(b, c, h // p, p, w // p, p)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p * p * c)

    def forward(self, images):
        tokens = self.embed(images).flatten(2).transpose(1, 2)
        pred = self.head(self.encoder(tokens))
        return (pred - self.target(images)).square().mean()


def train(root, steps, batch_size=128):
    pipe = jpeg_pipeline(
        root, 224, 0, 1, batch_size=batch_size, num_threads=8, device_id=0, prefetch_queue_depth=1
    )
    loader = DaliLoader(pipe, size=1_281_167)
    model = MAE().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1.5e-4)
    history = []
    for step, (images, _) in enumerate(loader):
        loss = model(images)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        history.append(loss.detach())
        if step + 1 == steps:
            break
    return torch.stack(history).tolist()
