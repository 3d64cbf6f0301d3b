import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.base_iterator import LastBatchPolicy
from nvidia.dali.plugin.pytorch import DALIGenericIterator


@pipeline_def
def imagenet_pipeline(file_root, crop, shard_id, num_shards, training):
    jpegs, labels = fn.readers.file(
        file_root=file_root, shard_id=shard_id, num_shards=num_shards,
        random_shuffle=training, name="Reader",
    )
    if training:
        images = fn.decoders.image_random_crop(jpegs, device="mixed", output_type=types.RGB)
        images = fn.resize(images, resize_x=crop, resize_y=crop)
        mirror = fn.random.coin_flip(probability=0.5)
    else:
        images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
        images = fn.resize(images, size=int(crop * 1.14), mode="not_smaller")
        mirror = False
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", crop=(crop, crop), mirror=mirror,
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255], std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
    )
    return images, labels.gpu()


def make_loader(root, batch, crop, device_id, num_shards, training, threads=4):
    pipe = imagenet_pipeline(
        batch_size=batch, num_threads=threads, device_id=device_id, file_root=root, crop=crop,
        shard_id=device_id, num_shards=num_shards, training=training, prefetch_queue_depth=2,
    )
    pipe.build()
    return DALIGenericIterator(
        pipe, ["data", "label"], reader_name="Reader", auto_reset=True,
        last_batch_policy=LastBatchPolicy.PARTIAL,
    )


def train_epoch(model, optimizer, loader, device):
    loss_sum = torch.zeros((), device=device)
    correct = torch.zeros((), device=device)
    seen = 0
    for (batch,) in loader:
        images, labels = batch["data"], batch["label"].squeeze(-1).long()
        logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss_sum += loss.detach() * labels.numel()
        correct += (logits.argmax(-1) == labels).sum()
        seen += labels.numel()
    return loss_sum.item() / seen, correct.item() / seen
