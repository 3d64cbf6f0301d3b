"""Iterator over DALI pipelines that copies the outputs into fresh torch tensors."""
import ctypes

import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali.backend import TensorGPU
from nvidia.dali.pipeline import Pipeline

_TORCH = {
    types.DALIDataType.FLOAT: torch.float32,
    types.DALIDataType.UINT8: torch.uint8,
    types.DALIDataType.INT32: torch.int32,
    types.DALIDataType.INT64: torch.int64,
}


def feed_ndarray(dali_tensor, arr, cuda_stream):
    """Copy a DALI tensor into a torch tensor, on the given stream when it is on the GPU."""
    ptr = ctypes.c_void_p(arr.data_ptr())
    if isinstance(dali_tensor, TensorGPU):
        handle = ctypes.c_void_p(cuda_stream.cuda_stream)
        dali_tensor.copy_to_external(ptr, handle, non_blocking=False)
    else:
        dali_tensor.copy_to_external(ptr)
    return arr


class ImagePipeline(Pipeline):
    def __init__(self, root, batch_size, device_id, num_threads=4):
        super().__init__(batch_size, num_threads, device_id, seed=17, prefetch_queue_depth=2,
                         exec_dynamic=False)
        self.root = root

    def define_graph(self):
        jpegs, labels = fn.readers.file(file_root=self.root, random_shuffle=True, name="Reader")
        images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
        images = fn.resize(images, resize_x=224, resize_y=224)
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW",
            mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4],
        )
        return images, labels


class DaliTorchIterator:
    """Every batch owns its memory, so callers may keep as many as they like."""

    def __init__(self, pipe, size):
        self.pipe = pipe
        self.size = size
        self.counter = 0
        self.device = torch.device("cuda", pipe.device_id)
        self.pipe.build()
        for _ in range(2):
            self.pipe.schedule_run()

    def __iter__(self):
        return self

    def __next__(self):
        if self.counter >= self.size:
            self.counter = 0
            raise StopIteration
        images, labels = self.pipe.share_outputs()
        images, labels = images.as_tensor(), labels.as_tensor()
        batch = torch.empty(images.shape(), dtype=_TORCH[images.dtype], device=self.device)
        target = torch.empty(labels.shape(), dtype=_TORCH[labels.dtype], pin_memory=True)
        stream = torch.cuda.current_stream(self.device)
        feed_ndarray(images, batch, stream)
        feed_ndarray(labels, target, stream)
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        self.counter += batch.shape[0]
        return batch, target.squeeze(-1).long().to(self.device, non_blocking=True)


@torch.inference_mode()
def extract_features(model, root, size, batch_size=128):
    pipe = ImagePipeline(root, batch_size, device_id=0)
    model = model.eval().to("cuda:0")
    features, labels = [], []
    for images, target in DaliTorchIterator(pipe, size):
        features.append(model(images))
        labels.append(target)
    return torch.cat(features).cpu(), torch.cat(labels).cpu()
