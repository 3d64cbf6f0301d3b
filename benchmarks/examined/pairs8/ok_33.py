import torch
import torch.nn as nn
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def
def jpeg_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, name="reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, size=(224, 224))
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4]
    )
    return images, labels


class PreprocessServer:
    def __init__(self, root, batch_size=32):
        self.pipe = jpeg_pipeline(root, batch_size=batch_size, num_threads=4, device_id=0)
        self.pipe.build()
        self.stream = torch.cuda.Stream()
        self.images = torch.empty(batch_size, 3, 224, 224, device="cuda")

    def next_batch(self):
        images, labels = self.pipe.run()
        feed_ndarray(images.as_tensor(), self.images, cuda_stream=torch.cuda.current_stream())
        torch.cuda.current_stream().synchronize()
        return self.images, torch.as_tensor(labels.as_array()).flatten()


@torch.inference_mode()
def evaluate(server, net, batches):
    correct = 0
    with torch.cuda.stream(server.stream):
        for _ in range(batches):
            images, labels = server.next_batch()
            correct += (net(images).argmax(-1).cpu() == labels).sum().item()
    return correct


def main():
    net = nn.Sequential(nn.Conv2d(3, 64, 16, 16), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 196, 1000)).cuda().eval()
    torch.cuda.synchronize()
    print(evaluate(PreprocessServer("/data/val"), net, 20))


if __name__ == "__main__":
    main()
