"""Feeds a network with batches from a DALI pipeline."""
import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def(batch_size=32, num_threads=4, device_id=0, prefetch_queue_depth=2)
def image_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed")
    images = fn.resize(images, resize_x=224, resize_y=224)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW",
                                      mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4])
    return images, labels.gpu()


class TorchFeeder:
    """Iterates over a pipeline and copies its outputs into torch tensors."""

    def __init__(self, pipe, device, steps):
        self.pipe = pipe
        self.device = device
        self.steps = steps
        self.pipe.build()
        self.pipe.schedule_run()

    def __iter__(self):
        for _ in range(self.steps):
            images, labels = self.pipe.share_outputs()
            images, labels = images.as_tensor(), labels.as_tensor()
            x = torch.empty(images.shape(), dtype=torch.float32, device=self.device)
            y = torch.empty(labels.shape(), dtype=torch.int32, device=self.device)
            stream = torch.cuda.current_stream(self.device)
            feed_ndarray(images, x, cuda_stream=stream)
            feed_ndarray(labels, y, cuda_stream=stream)
            self.pipe.release_outputs()
            self.pipe.schedule_run()
            yield x, y.flatten().long()


def main(root="/data/train"):
    device = torch.device("cuda", 0)
    train_stream = torch.cuda.Stream(device)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7, stride=4), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                torch.nn.Linear(64, 1000)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    train_stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(train_stream):
        for x, y in TorchFeeder(image_pipeline(root), device, 100):
            opt.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
        print(loss.item())


if __name__ == "__main__":
    main()
