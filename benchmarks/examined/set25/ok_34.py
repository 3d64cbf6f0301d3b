"""DALI loader that hands out tensors which stay valid after the next batch."""
import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def
def image_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed")
    images = fn.resize(images, size=(224, 224))
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW")
    return images, labels.gpu()


class OwningLoader:
    """Copies each output to freshly allocated tensors, one batch ahead."""

    def __init__(self, pipe, batches):
        self.pipe = pipe
        self.batches = batches
        self.stream = torch.cuda.Stream()

    def _fetch(self):
        outputs = self.pipe.share_outputs()
        with torch.cuda.stream(self.stream):
            tensors = []
            for out, dtype in zip(outputs, (torch.float32, torch.int32)):
                dali_tensor = out.as_tensor()
                dst = torch.empty(dali_tensor.shape(), dtype=dtype, device="cuda")
                feed_ndarray(dali_tensor, dst, cuda_stream=self.stream, non_blocking=True)
                tensors.append(dst)
        self.stream.synchronize()
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return tensors

    def __iter__(self):
        self.pipe.schedule_run()
        ahead = self._fetch()
        for i in range(self.batches):
            batch, ahead = ahead, self._fetch() if i + 1 < self.batches else None
            current = torch.cuda.current_stream()
            current.wait_stream(self.stream)
            for t in batch:
                t.record_stream(current)
            yield batch


def train(model, loader, optimizer):
    losses = []
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels.squeeze(-1).long())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def main():
    pipe = image_pipeline("/data/train", batch_size=64, num_threads=4, device_id=0)
    pipe.build()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 7, stride=4), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 1000)).cuda()
    print(train(model, OwningLoader(pipe, 50), torch.optim.SGD(model.parameters(), lr=0.1)))


if __name__ == "__main__":
    main()
