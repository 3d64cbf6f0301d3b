"""DALI reader with zero-copy torch outputs (dynamic executor) feeding a two-batch temporal model."""
import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def


@pipeline_def(exec_dynamic=True)
def clip_pipeline(root, crop):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, resize_shorter=crop + 32)
    images = fn.crop_mirror_normalize(
        images,
        crop=(crop, crop),
        dtype=types.FLOAT,
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
    )
    return images, labels.gpu()


class ZeroCopyIterator:
    """Outputs of the dynamic executor are owned by whoever holds them; they are never written again."""

    def __init__(self, pipe, stream):
        self.pipe = pipe
        self.stream = stream
        pipe.build()

    def __iter__(self):
        for _ in range(self.pipe.epoch_size("reader") // self.pipe.max_batch_size):
            images, labels = self.pipe.run(cuda_stream=self.stream)
            with torch.cuda.stream(self.stream):
                yield torch.from_dlpack(images.as_tensor()), torch.from_dlpack(labels.as_tensor()).flatten()


class DifferenceNet(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(6, 64, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4)
        )
        self.head = torch.nn.Linear(64 * 16, classes)

    def forward(self, prev, cur):
        x = torch.cat([cur, cur - prev], dim=1)
        return self.head(self.features(x).flatten(1))


def train(root, epochs=2, batch_size=64, classes=1000):
    stream = torch.cuda.Stream()
    model = DifferenceNet(classes).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(epochs):
        pipe = clip_pipeline(root, 224, batch_size=batch_size, num_threads=4, device_id=0)
        prev = None
        with torch.cuda.stream(stream):
            for images, labels in ZeroCopyIterator(pipe, stream):
                if prev is not None:
                    loss = torch.nn.functional.cross_entropy(model(prev, images), labels.long())
                    loss.backward()
                    opt.step()
                    opt.zero_grad()
                prev = images
        stream.synchronize()
    return loss.item()


if __name__ == "__main__":
    print(train("/data/imagenet/train"))
