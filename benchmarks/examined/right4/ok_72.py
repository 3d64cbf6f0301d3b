import queue
import threading

import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def(batch_size=32, num_threads=4, device_id=0)
def image_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed")
    images = fn.resize(images, resize_x=224, resize_y=224)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW",
                                      mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4])
    return images, labels.gpu()


class DaliFeeder(threading.Thread):
    _dtypes = {types.FLOAT: torch.float32, types.INT32: torch.int32}

    def __init__(self, pipe, batches, depth=2):
        super().__init__(daemon=True)
        self.pipe, self.batches = pipe, batches
        self.out = queue.Queue(maxsize=depth)
        self.stream = torch.cuda.Stream()

    def _copy(self, tensor_list):
        source = tensor_list.as_tensor()
        target = torch.empty(source.shape(), dtype=self._dtypes[source.dtype], device="cuda")
        feed_ndarray(source, target, cuda_stream=self.stream)
        return target

    def run(self):
        torch.cuda.set_device(0)
        with torch.cuda.stream(self.stream):
            for _ in range(self.batches):
                self.pipe.schedule_run()
                shared = self.pipe.share_outputs()
                batch = [self._copy(t) for t in shared]
                self.stream.synchronize()
                self.pipe.release_outputs()
                self.out.put(batch)
        self.out.put(None)

    def __iter__(self):
        self.start()
        while (batch := self.out.get()) is not None:
            for t in batch:
                t.record_stream(torch.cuda.current_stream())
            yield batch


def train(root, model, batches=1000):
    pipe = image_pipeline(root, exec_pipelined=False, exec_async=False, prefetch_queue_depth=1)
    pipe.build()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in DaliFeeder(pipe, batches):
        loss = torch.nn.functional.cross_entropy(model(images), labels.squeeze(-1).long())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
