import torch
import torch.nn as nn
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def(num_threads=2, device_id=0)
def video_pipeline(files, length):
    clip = fn.readers.video(device="gpu", filenames=files, sequence_length=length, name="video", dtype=types.UINT8)
    clip = fn.resize(clip, size=(256, 256))
    return fn.crop_mirror_normalize(clip, dtype=types.FLOAT, output_layout="FCHW", std=[255.0] * 3)


class ClipLoader:
    """Iterates over clips; each tensor is a fresh allocation."""

    def __init__(self, files, length=16, batch_size=2):
        self.pipe = video_pipeline(files, length, batch_size=batch_size)
        self.pipe.build()
        self.copy_stream = torch.cuda.Stream()
        self.shape = (batch_size, length, 3, 256, 256)
        self.held = []

    def __iter__(self):
        return self

    def __next__(self):
        (clips,) = self.pipe.run()
        self.copy_stream.synchronize()
        out = torch.empty(self.shape, device="cuda")
        feed_ndarray(clips.as_tensor(), out, cuda_stream=self.copy_stream)
        self.held = [out]
        return out


class KeypointNet(nn.Module):
    def __init__(self, points=12):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 64, 7, 4, 3), nn.ReLU(), nn.Conv2d(64, points, 1))

    def forward(self, clips):
        return self.body(clips.flatten(0, 1)).flatten(2).argmax(-1)


@torch.no_grad()
def main():
    net = KeypointNet().cuda().eval()
    loader = ClipLoader(["session0.mp4", "session1.mp4"])
    tracks = []
    for _ in range(50):
        tracks.append(net(next(loader)).cpu())
    print(torch.cat(tracks).shape)


if __name__ == "__main__":
    main()
