import torch
from nvidia.dali import fn, types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import feed_ndarray, to_torch_type


def image_pipeline(file_root, batch_size, device_id, size=224, num_threads=4):
    pipe = Pipeline(batch_size, num_threads, device_id, prefetch_queue_depth=2)
    with pipe:
        jpegs, labels = fn.readers.file(file_root=file_root, random_shuffle=True, name="Reader")
        images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
        images = fn.resize(images, size=[size, size])
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW",
            mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4])
        pipe.set_outputs(images, labels.gpu())
    return pipe


class TorchIterator:

    def __init__(self, pipe, output_map, device):
        self.pipe = pipe
        self.output_map = output_map
        self.device = device
        self.pipe.build()
        self.pipe.schedule_run()

    def __iter__(self):
        return self

    def _copy_out(self, tensor_list, stream):
        dense = tensor_list.as_tensor()
        out = torch.empty(dense.shape(), dtype=to_torch_type[dense.dtype], device=self.device)
        feed_ndarray(dense, out, cuda_stream=stream)
        return out

    def __next__(self):
        stream = torch.cuda.current_stream(self.device)
        outputs = self.pipe.share_outputs()
        batch = {name: self._copy_out(t, stream) for name, t in zip(self.output_map, outputs)}
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return batch


def train(model, opt, iterator, steps):
    loss_fn = torch.nn.CrossEntropyLoss()
    losses = []
    for _ in range(steps):
        batch = next(iterator)
        loss = loss_fn(model(batch["images"]), batch["labels"].squeeze(1).long())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()
