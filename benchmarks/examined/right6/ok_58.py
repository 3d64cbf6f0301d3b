import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray, to_torch_type


@pipeline_def(batch_size=32, num_threads=4, device_id=0)
def image_pipe(root):
    files, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image(files, device="mixed")
    images = fn.resize(images, resize_x=224, resize_y=224)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW")
    return images, labels.gpu()


class DaliBatches:
    """Copies pipeline outputs into torch tensors before they are given back."""

    def __init__(self, root):
        self.pipe = image_pipe(root)
        self.pipe.build()
        self.pipe.schedule_run()

    def _to_torch(self, tensor_list, stream):
        dense = tensor_list.as_tensor()
        out = torch.empty(dense.shape(), dtype=to_torch_type[dense.dtype], device="cuda")
        feed_ndarray(dense, out, cuda_stream=stream)
        return out

    def __iter__(self):
        return self

    def __next__(self):
        stream = torch.cuda.current_stream()
        outputs = self.pipe.share_outputs()
        images, labels = (self._to_torch(o, stream) for o in outputs)
        stream.synchronize()
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return images, labels.long().flatten()


def main(steps=20):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1),
                                torch.nn.Flatten(), torch.nn.Linear(8, 10)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _, (x, y) in zip(range(steps), DaliBatches("/data/train")):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())


if __name__ == "__main__":
    main()
