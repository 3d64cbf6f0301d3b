"""Speech features: upload, framing and model run on three streams with two slots each."""
import torch
from torch import nn


class FeaturePipeline:
    def __init__(self, model, batch, samples, window=400, device="cuda"):
        self.model = model
        self.upload_stream = torch.cuda.Stream(device)
        self.frame_stream = torch.cuda.Stream(device)
        self.host = [torch.empty(batch, samples, pin_memory=True) for _ in range(2)]
        self.raw = [torch.empty(batch, samples, device=device) for _ in range(2)]
        self.feat = [torch.empty(batch, samples // window, window, device=device) for _ in range(2)]
        self.uploaded = [torch.cuda.Event() for _ in range(2)]
        self.framed = [torch.cuda.Event() for _ in range(2)]
        self.consumed = [torch.cuda.Event() for _ in range(2)]
        for event in self.consumed:
            event.record()
        self.taper = torch.hann_window(window, device=device)
        self.frame_stream.wait_stream(torch.cuda.current_stream())
        self.window = window

    def _upload(self, slot, audio):
        self.uploaded[slot].synchronize()
        self.host[slot].copy_(audio)
        self.upload_stream.wait_event(self.consumed[slot])
        with torch.cuda.stream(self.upload_stream):
            self.raw[slot].copy_(self.host[slot], non_blocking=True)
            self.uploaded[slot].record()

    def _frame(self, slot):
        self.frame_stream.wait_event(self.uploaded[slot])
        with torch.cuda.stream(self.frame_stream):
            frames = self.raw[slot].view(self.raw[slot].shape[0], -1, self.window)
            torch.mul(frames, self.taper, out=self.feat[slot])
            self.framed[slot].record()

    def submit(self, i, audio):
        self._upload(i % 2, audio)
        self._frame(i % 2)

    def infer(self, i):
        torch.cuda.current_stream().wait_event(self.framed[i % 2])
        out = self.model(self.feat[i % 2]).mean(1)
        self.consumed[i % 2].record()
        return out


@torch.no_grad()
def main():
    model = nn.Sequential(nn.Linear(400, 1024), nn.GELU(), nn.Linear(1024, 64)).cuda().eval()
    pipe = FeaturePipeline(model, batch=64, samples=64000)
    audio = (torch.randn(64, 64000) for _ in range(40))
    outputs = []
    pipe.submit(0, next(audio))
    for i in range(1, 40):
        pipe.submit(i, next(audio))
        outputs.append(pipe.infer(i - 1))
    outputs.append(pipe.infer(39))
    print(torch.stack(outputs).mean(0).cpu())


if __name__ == "__main__":
    main()
