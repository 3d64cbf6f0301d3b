"""Stage graph for a perception pipeline; each stage has its own stream."""
import torch
from torch import nn


class Packet:
    def __init__(self, tensors, ready):
        self.tensors = tensors
        self.ready = ready


class Stage:
    def __init__(self, device="cuda"):
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream())

    def compute(self, *tensors):
        raise NotImplementedError

    def __call__(self, packet):
        with torch.cuda.stream(self.stream), torch.inference_mode():
            self.stream.wait_event(packet.ready)
            for t in packet.tensors:
                t.record_stream(self.stream)
            out = self.compute(*packet.tensors)
            return Packet(out, self.stream.record_event())


class Normalize(Stage):
    def compute(self, image):
        return ((image - 0.45) / 0.22,)


class Backbone(Stage):
    def __init__(self):
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU()).cuda()
        super().__init__()

    def compute(self, image):
        return (self.net(image),)


class Heads(Stage):
    def __init__(self):
        self.boxes = nn.Conv2d(64, 4, 1).cuda()
        self.scores = nn.Conv2d(64, 1, 1).cuda()
        super().__init__()

    def compute(self, feats):
        return self.boxes(feats), self.scores(feats).sigmoid()


def camera(n):
    for _ in range(n):
        image = torch.rand(1, 3, 384, 640).pin_memory().cuda(non_blocking=True)
        yield Packet((image,), torch.cuda.current_stream().record_event())


def main():
    stages = [Normalize(), Backbone(), Heads()]
    kept = 0.0
    for packet in camera(200):
        for stage in stages:
            packet = stage(packet)
        packet.ready.synchronize()
        boxes, scores = packet.tensors
        kept += float((scores > 0.5).float().mean())
    print(kept)


if __name__ == "__main__":
    main()
