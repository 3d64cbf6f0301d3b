import nvidia.dali.ops as ops
import nvidia.dali.types as types
import torch
import torch.nn.functional as F
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIGenericIterator


class GpuAugmentPipeline(Pipeline):
    def __init__(self, batch_size, num_threads, device_id, data_iter, size=256):
        super().__init__(batch_size=batch_size, num_threads=num_threads, device_id=device_id)
        self.data_iter = data_iter
        self.size = size
        self.device = torch.device("cuda", device_id)
        self.stream = torch.cuda.Stream(self.device)
        self.input_images = ops.ExternalSource(device="gpu")
        self.input_labels = ops.ExternalSource(device="cpu")
        self.crop = ops.CropMirrorNormalize(
            device="gpu",
            dtype=types.FLOAT,
            output_layout="CHW",
            crop=(224, 224),
            mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
            std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        )
        self.coin = ops.random.CoinFlip(probability=0.5)

    def define_graph(self):
        self.images = self.input_images()
        self.labels = self.input_labels()
        out = self.crop(self.images, mirror=self.coin())
        return out, self.labels

    def iter_setup(self):
        try:
            data = next(self.data_iter)
        except StopIteration:
            raise StopIteration
        images = data["image"].to(self.device, non_blocking=True)
        images = F.interpolate(images.float(), size=(self.size, self.size), mode="bilinear")
        images = images.clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        images.record_stream(self.stream)
        self.feed_input(self.images, images, layout="HWC", cuda_stream=self.stream)
        self.feed_input(self.labels, data["label"].numpy())


def build_loader(dataset, batch_size, device_id):
    data_iter = iter(
        torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=4, pin_memory=True, drop_last=True)
    )
    pipe = GpuAugmentPipeline(batch_size, 4, device_id, data_iter)
    pipe.build()
    return DALIGenericIterator([pipe], ["image", "label"], auto_reset=False)
