"""Frame pipeline over four streams; each stage knows only its direct predecessor."""
import torch

SLOTS = 3


class Stage:
    def __init__(self, name, fn):
        self.name = name
        self.fn = fn
        self.stream = torch.cuda.Stream()
        self.done = [torch.cuda.Event() for _ in range(SLOTS)]
        self.upstream = None

    def after(self, stage):
        self.upstream = stage
        return self

    def run(self, slot, frame):
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.upstream.done[slot])
            self.fn(slot, frame)
            self.done[slot].record()


class FramePipeline:
    def __init__(self, height, width, frames):
        self.raw = torch.zeros(SLOTS, height, width, device="cuda")
        self.edges = torch.zeros(SLOTS, height, width, device="cuda")
        self.input = torch.rand(frames, height, width).pin_memory()
        self.output = torch.zeros(frames, height, width).pin_memory()
        self.kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], device="cuda")[None, None]
        ingest = Stage("ingest", self._ingest)
        denoise = Stage("denoise", self._denoise).after(ingest)
        sobel = Stage("sobel", self._sobel).after(denoise)
        emit = Stage("emit", self._emit).after(sobel)
        ingest.after(emit)
        self.stages = [ingest, denoise, sobel, emit]
        torch.cuda.synchronize()

    def _ingest(self, slot, frame):
        self.raw[slot].copy_(self.input[frame], non_blocking=True)

    def _denoise(self, slot, frame):
        smooth = torch.nn.functional.avg_pool2d(self.raw[slot][None, None], 3, stride=1, padding=1)
        self.raw[slot].copy_(smooth[0, 0])

    def _sobel(self, slot, frame):
        response = torch.nn.functional.conv2d(self.raw[slot][None, None], self.kernel, padding=1)
        self.edges[slot].copy_(response[0, 0].abs())

    def _emit(self, slot, frame):
        self.output[frame].copy_(self.edges[slot], non_blocking=True)

    def run(self):
        for frame in range(len(self.input)):
            for stage in self.stages:
                stage.run(frame % SLOTS, frame)
        self.stages[-1].stream.synchronize()
        return self.output


def main():
    edges = FramePipeline(480, 640, frames=60).run()
    print(edges.mean(dim=(1, 2))[:5])


if __name__ == "__main__":
    main()
