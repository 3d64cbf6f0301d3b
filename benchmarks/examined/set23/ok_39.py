"""Iterate over a DALI pipeline, copy its outputs into torch tensors on a side stream."""
import ctypes

import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def

TO_TORCH = {types.FLOAT: torch.float32, types.UINT8: torch.uint8, types.INT32: torch.int32}


@pipeline_def(num_threads=4, device_id=0)
def image_pipeline(root, size):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed")
    images = fn.resize(images, resize_x=size, resize_y=size)
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mean=[127.5], std=[127.5]
    )
    return images, labels.gpu()


def copy_out(tensor_list, stream, device):
    """Dense copy of a DALI output, complete when the function returns."""
    dense = tensor_list.as_tensor()
    out = torch.empty(dense.shape(), dtype=TO_TORCH[dense.dtype], device=device)
    dense.copy_to_external(
        ctypes.c_void_p(out.data_ptr()),
        cuda_stream=ctypes.c_void_p(stream.cuda_stream),
        non_blocking=False,
    )
    return out


class DaliLoader:
    def __init__(self, root, batch_size, size=224, device="cuda:0"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.pipe = image_pipeline(root, size, batch_size=batch_size)
        self.pipe.build()
        self.steps = self.pipe.epoch_size("reader") // batch_size

    def __iter__(self):
        self.pipe.schedule_run()
        for step in range(self.steps):
            outputs = self.pipe.share_outputs()
            with torch.cuda.stream(self.stream):
                images, labels = (copy_out(o, self.stream, self.device) for o in outputs)
                ready = self.stream.record_event()
            self.pipe.release_outputs()
            if step + 1 < self.steps:
                self.pipe.schedule_run()
            current = torch.cuda.current_stream(self.device)
            current.wait_event(ready)
            images.record_stream(current)
            labels.record_stream(current)
            yield images, labels.long().flatten()


def train(model, root, epochs=1):
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DaliLoader(root, batch_size=128)
    for _ in range(epochs):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return loss.item()
