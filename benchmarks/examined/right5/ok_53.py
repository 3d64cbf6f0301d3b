import torch
from torch import nn


class SegmentationPipeline:
    """upload -> network -> overlay, one stream each, two frame slots."""

    def __init__(self, net: nn.Module, h: int, w: int):
        self.net = net
        self.upload = torch.cuda.Stream()
        self.infer = torch.cuda.Stream(priority=-1)
        self.post = torch.cuda.Stream()
        self.frames = [torch.zeros(1, 3, h, w, device="cuda") for _ in range(2)]
        self.masks = [torch.zeros(1, 1, h, w, device="cuda") for _ in range(2)]
        self.shown = [None, None]
        self.upload.wait_stream(torch.cuda.current_stream())
        self.infer.wait_stream(torch.cuda.current_stream())

    def _upload(self, k: int, image: torch.Tensor):
        with torch.cuda.stream(self.upload):
            if self.shown[k] is not None:
                self.upload.wait_event(self.shown[k])
            self.frames[k].copy_(image, non_blocking=True)
            return self.upload.record_event()

    def _infer(self, k: int, uploaded):
        with torch.cuda.stream(self.infer):
            self.infer.wait_event(uploaded)
            self.masks[k].copy_(self.net(self.frames[k]).sigmoid())
            return self.infer.record_event()

    def _overlay(self, k: int, inferred, sink: torch.Tensor):
        with torch.cuda.stream(self.post):
            self.post.wait_event(inferred)
            blended = self.frames[k] * (1 - self.masks[k]) + 0.5 * self.masks[k]
            sink.copy_(blended, non_blocking=True)
            self.shown[k] = self.post.record_event()

    def run(self, images):
        sinks = [torch.empty(1, 3, *self.frames[0].shape[-2:], pin_memory=True) for _ in images]
        for i, image in enumerate(images):
            k = i % 2
            self._overlay(k, self._infer(k, self._upload(k, image)), sinks[i])
        self.post.synchronize()
        return sinks


@torch.inference_mode()
def main():
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1)).cuda().eval()
    pipe = SegmentationPipeline(net, 720, 1280)
    images = [torch.rand(1, 3, 720, 1280).pin_memory() for _ in range(12)]
    for out in pipe.run(images):
        print(out.mean().item())


if __name__ == "__main__":
    main()
