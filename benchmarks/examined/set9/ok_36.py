import ctypes

import torch
from nvidia.dali import fn, pipeline_def, types

to_torch_type = {
    types.DALIDataType.FLOAT: torch.float32,
    types.DALIDataType.FLOAT16: torch.float16,
    types.DALIDataType.UINT8: torch.uint8,
    types.DALIDataType.INT32: torch.int32,
    types.DALIDataType.INT64: torch.int64,
}


def feed_ndarray(dali_tensor, arr: torch.Tensor, cuda_stream=None, non_blocking=False):
    """Copy contents of DALI tensor to PyTorch's Tensor."""
    if not arr.is_cuda:
        dali_tensor.copy_to_external(ctypes.c_void_p(arr.data_ptr()))
        return arr
    stream = cuda_stream if cuda_stream is not None else torch.cuda.current_stream(arr.device)
    raw = ctypes.c_void_p(stream.cuda_stream)
    dali_tensor.copy_to_external(ctypes.c_void_p(arr.data_ptr()), raw, non_blocking)
    return arr


@pipeline_def(num_threads=8, device_id=0)
def training_pipe(file_root, size):
    jpegs, labels = fn.readers.file(file_root=file_root, random_shuffle=True, name="Reader")
    images = fn.decoders.image_random_crop(jpegs, device="mixed")
    images = fn.resize(images, size=[size, size])
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4]
    )
    return images, labels.gpu()


class DALIGenericIterator:
    """Hands out copies of the pipeline outputs and schedules the next run after the copy."""

    def __init__(self, pipe, output_map, device=torch.device("cuda", 0)):
        self._pipe = pipe
        self.output_map = output_map
        self.device = device
        self._size = pipe.epoch_size("Reader")
        self._counter = 0
        self._pipe.build()
        self._pipe.schedule_run()

    def __iter__(self):
        return self

    def __next__(self):
        if self._counter >= self._size:
            self._counter = 0
            raise StopIteration
        outputs = self._pipe.share_outputs()
        data = {}
        for name, out in zip(self.output_map, outputs):
            dense = out.as_tensor()
            tensor = torch.empty(dense.shape(), dtype=to_torch_type[dense.dtype], device=self.device)
            data[name] = feed_ndarray(dense, tensor, cuda_stream=torch.cuda.current_stream(self.device))
        self._pipe.release_outputs()
        self._pipe.schedule_run()
        self._counter += data[self.output_map[0]].shape[0]
        return data


def train(model, optimizer, file_root, epochs, batch_size=64, size=224):
    loader = DALIGenericIterator(training_pipe(file_root, size, batch_size=batch_size), ["data", "label"])
    for _ in range(epochs):
        for batch in loader:
            logits = model(batch["data"])
            loss = torch.nn.functional.cross_entropy(logits, batch["label"].squeeze(-1).long())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
