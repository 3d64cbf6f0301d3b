from typing import Dict, List, Optional

import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def
def imagenet_train_pipe(data_dir: str, crop: int, shard_id: int, num_shards: int):
    jpegs, labels = fn.readers.file(file_root=data_dir, shard_id=shard_id, num_shards=num_shards,
                                    random_shuffle=True, name="Reader")
    images = fn.decoders.image_random_crop(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, device="gpu", resize_x=crop, resize_y=crop)
    images = fn.crop_mirror_normalize(images, device="gpu", dtype=types.FLOAT, output_layout="CHW",
                                      mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375],
                                      mirror=fn.random.coin_flip())
    return images, labels.gpu()


class PreallocatedIterator:
    """Hands out the same tensors in every iteration; no allocation in the training loop."""

    def __init__(self, pipe, output_map: List[str], size: int):
        self.pipe = pipe
        self.output_map = output_map
        self.size = size
        self.batch_size = pipe.max_batch_size
        self.device = torch.device("cuda", pipe.device_id)
        self._tensors: Optional[Dict[str, torch.Tensor]] = None
        self._consumed = 0
        self.pipe.build()
        self.pipe.schedule_run()

    @staticmethod
    def _torch_dtype(dtype):
        return {types.FLOAT: torch.float32, types.INT32: torch.int32, types.UINT8: torch.uint8}[dtype]

    def _allocate(self, outputs) -> None:
        self._tensors = {
            name: torch.empty(t.shape(), dtype=self._torch_dtype(t.dtype), device=self.device)
            for name, t in zip(self.output_map, outputs)
        }
        torch.cuda.current_stream(self.device).synchronize()

    def __iter__(self):
        self._consumed = 0
        return self

    def __next__(self) -> Dict[str, torch.Tensor]:
        if self._consumed >= self.size:
            raise StopIteration
        outputs = [out.as_tensor() for out in self.pipe.share_outputs()]
        if self._tensors is None:
            self._allocate(outputs)
        for name, t in zip(self.output_map, outputs):
            feed_ndarray(t, self._tensors[name])
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        self._consumed += self.batch_size
        return self._tensors


def train_epoch(model, criterion, optimizer, loader: PreallocatedIterator) -> torch.Tensor:
    running = torch.zeros((), device=loader.device)
    for data in loader:
        target = data["label"].view(-1).long()
        with torch.autocast("cuda"):
            loss = criterion(model(data["data"]), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.detach()
    return running / (loader.size // loader.batch_size)


def make_loader(data_dir: str, batch_size: int, crop: int, local_rank: int, world: int) -> PreallocatedIterator:
    pipe = imagenet_train_pipe(data_dir, crop, local_rank, world, batch_size=batch_size,
                               num_threads=8, device_id=local_rank, prefetch_queue_depth=2)
    pipe.build()
    size = pipe.reader_meta("Reader")["epoch_size_padded"] // world
    return PreallocatedIterator(pipe, ["data", "label"], size)
