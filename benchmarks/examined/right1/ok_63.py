"""Feed a DALI image pipeline into fixed PyTorch buffers."""
import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def
def image_pipe(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="files")
    images = fn.decoders.image(jpegs, device="mixed")
    images = fn.resize(images, resize_x=224, resize_y=224)
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW",
        mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.0])
    return images, labels.gpu()


class Slot:
    def __init__(self, batch, device):
        self.images = torch.empty(batch, 3, 224, 224, device=device)
        self.labels = torch.empty(batch, 1, dtype=torch.int32, device=device)
        self.ready = torch.cuda.Event()
        self.free = torch.cuda.Event()


class DaliFeed:
    def __init__(self, pipe, batch, device):
        self.pipe = pipe
        self.copy = torch.cuda.Stream(device)
        self.slots = [Slot(batch, device) for _ in range(2)]
        self.copy.wait_stream(torch.cuda.current_stream(device))
        self.pipe.build()
        self.pipe.schedule_run()

    def _fill(self, slot):
        images, labels = self.pipe.share_outputs()
        self.copy.wait_event(slot.free)
        feed_ndarray(images.as_tensor(), slot.images, cuda_stream=self.copy)
        feed_ndarray(labels.as_tensor(), slot.labels, cuda_stream=self.copy)
        slot.ready.record(self.copy)
        self.pipe.release_outputs()
        self.pipe.schedule_run()

    def batches(self, count):
        self._fill(self.slots[0])
        for k in range(count):
            slot = self.slots[k % 2]
            main = torch.cuda.current_stream()
            main.wait_event(slot.ready)
            yield slot.images, slot.labels.squeeze(1).long()
            slot.free.record(main)
            if k + 1 < count:
                self._fill(self.slots[(k + 1) % 2])


def train(root, model, steps=100, batch=64, device="cuda:0"):
    pipe = image_pipe(root, batch_size=batch, num_threads=4, device_id=0)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for images, labels in DaliFeed(pipe, batch, device).batches(steps):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    import sys
    import torchvision

    print(train(sys.argv[1], torchvision.models.resnet18().cuda()))
