import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from nvidia.dali.backend import TensorGPU
from nvidia.dali.plugin.pytorch import feed_ndarray, to_torch_type


@pipeline_def
def image_pipeline(root, crop):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="Reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.random_resized_crop(images, size=crop)
    images = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[123.7, 116.3, 103.5],
        std=[58.4, 57.1, 57.4],
        mirror=fn.random.coin_flip(),
    )
    return images, labels.gpu()


class PipelineIterator:
    def __init__(self, pipe, device):
        self.pipe = pipe
        self.device = torch.device("cuda", device)
        self.size = pipe.epoch_size("Reader")
        self.pipe.schedule_run()

    def _to_torch(self, output):
        tensor = output.as_tensor()
        assert isinstance(tensor, TensorGPU)
        out = torch.empty(tensor.shape(), dtype=to_torch_type[tensor.dtype], device=self.device)
        stream = torch.cuda.current_stream(self.device)
        feed_ndarray(tensor, out, cuda_stream=stream)
        return out

    def __iter__(self):
        seen = 0
        while seen < self.size:
            outputs = self.pipe.share_outputs()
            images, labels = (self._to_torch(output) for output in outputs)
            torch.cuda.current_stream(self.device).synchronize()
            self.pipe.release_outputs()
            self.pipe.schedule_run()
            seen += images.shape[0]
            yield images, labels.squeeze(1).long()


def train(model, optimizer, root, epochs, batch=128, device=0):
    pipe = image_pipeline(root, 224, batch_size=batch, num_threads=8, device_id=device)
    pipe.build()
    loader = PipelineIterator(pipe, device)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(epochs):
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
    stream.synchronize()
