"""Video classification fed by a DALI pipeline through zero-copy DLPack outputs."""
import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from torch import nn


@pipeline_def(exec_dynamic=False)
def clip_pipeline(files, sequence_length, size):
    clips = fn.readers.video(
        device="gpu", filenames=files, sequence_length=sequence_length, stride=2, name="Clips"
    )
    clips = fn.resize(clips, resize_x=size, resize_y=size)
    return fn.crop_mirror_normalize(
        clips, dtype=types.FLOAT, output_layout="CFHW",
        mean=[114.8, 107.7, 99.5], std=[58.4, 57.1, 57.4],
    )


class ClipSource:
    """Keeps the pipeline's queue full and hands out views of its output buffers."""

    def __init__(self, files, batch_size, sequence_length=16, size=224, device_id=0, depth=2):
        self.pipe = clip_pipeline(
            files, sequence_length, size,
            batch_size=batch_size, num_threads=4, device_id=device_id, prefetch_queue_depth=depth,
        )
        self.pipe.build()
        self.remaining = self.pipe.epoch_size("Clips") // batch_size
        for _ in range(depth):
            self.pipe.schedule_run()

    def __iter__(self):
        return self

    def __next__(self):
        if self.remaining == 0:
            raise StopIteration
        self.remaining -= 1
        (clips,) = self.pipe.share_outputs()
        batch = torch.from_dlpack(clips.as_tensor())
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return batch


class R3DHead(nn.Module):
    def __init__(self, backbone, width, classes):
        super().__init__()
        self.backbone = backbone
        self.fc = nn.Linear(width, classes)

    def forward(self, clips):
        return self.fc(self.backbone(clips).flatten(1))


class RunningTopK:
    def __init__(self, classes, device):
        self.histogram = torch.zeros(classes, dtype=torch.long, device=device)
        self.confidence = torch.zeros((), device=device)
        self.batches = 0

    def update(self, logits):
        probs = torch.softmax(logits.float(), dim=1)
        best, index = probs.max(dim=1)
        self.histogram.scatter_add_(0, index, torch.ones_like(index))
        self.confidence += best.mean()
        self.batches += 1

    def summary(self):
        return self.histogram.cpu(), (self.confidence / max(1, self.batches)).item()


@torch.inference_mode()
def classify(files, backbone, width=512, classes=400, batch_size=8):
    device = torch.device("cuda", 0)
    model = R3DHead(backbone, width, classes).to(device).eval()
    metrics = RunningTopK(classes, device)
    source = ClipSource(files, batch_size)
    for clips in source:
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(clips)
        metrics.update(logits)
    return metrics.summary()
