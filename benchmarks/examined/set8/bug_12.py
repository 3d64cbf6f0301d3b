import torch
from nvidia.dali import fn, types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import feed_ndarray


class GpuFrameSource:
    """Turns packed 16-bit sensor frames into float tensors on the GPU."""

    def __init__(self, device, black_level=64.0, white_level=1023.0):
        self.device = device
        self.black_level = black_level
        self.scale = 1.0 / (white_level - black_level)
        self.prep_stream = torch.cuda.Stream(device=device)

    def unpack(self, raw):
        with torch.cuda.stream(self.prep_stream):
            t = raw.pin_memory().to(self.device, non_blocking=True)
            t = (t.to(torch.float32) - self.black_level) * self.scale
            t = t.clamp_(0.0, 1.0).unsqueeze(-1)
        return [sample.contiguous() for sample in t.unbind(0)]


class SensorPipeline:

    def __init__(self, batch_size, size, device_id=0, num_threads=2):
        self.device = torch.device("cuda", device_id)
        self.source = GpuFrameSource(self.device)
        self.size = size
        self.pipe = Pipeline(batch_size, num_threads, device_id, prefetch_queue_depth=1)
        with self.pipe:
            frames = fn.external_source(name="frames", device="gpu", layout="HWC")
            frames = fn.resize(frames, size=[size, size], interp_type=types.INTERP_LINEAR)
            self.pipe.set_outputs(frames)
        self.pipe.build()

    def __call__(self, raw):
        samples = self.source.unpack(raw)
        self.pipe.feed_input(
            "frames", samples, cuda_stream=torch.cuda.current_stream(self.device))
        (out,) = self.pipe.run()
        dense = out.as_tensor()
        result = torch.empty(dense.shape(), dtype=torch.float32, device=self.device)
        feed_ndarray(dense, result, cuda_stream=torch.cuda.current_stream(self.device))
        return result


def features(net, pipeline, recordings):
    feats = []
    with torch.no_grad():
        for raw in recordings:
            x = pipeline(raw).permute(0, 3, 1, 2)
            feats.append(net(x).cpu())
    return torch.cat(feats)
