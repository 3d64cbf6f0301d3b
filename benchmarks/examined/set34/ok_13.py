"""Layers spread over two devices; activations move with plain device-to-device copies."""
import torch
from torch import nn


class StageDevice:
    def __init__(self, device, layers):
        self.device = torch.device(device)
        self.layers = nn.Sequential(*layers).to(self.device).eval()
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def __call__(self, x):
        return self.layers(x)


class StageStreams:
    """Makes the stream of every stage current on its device."""

    def __init__(self, stages):
        self.stages = stages

    def __enter__(self):
        self._contexts = []
        for stage in self.stages:
            ctx = torch.cuda.stream(stage.stream)
            ctx.__enter__()
            self._contexts.append(ctx)
        return self

    def __exit__(self, *exc):
        for ctx in reversed(self._contexts):
            ctx.__exit__(*exc)
        return False


class TwoStageModel:
    def __init__(self, dim=2048, depth=16):
        half = depth // 2
        layers = [nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)]
        self.first = StageDevice("cuda:0", layers[:half])
        self.second = StageDevice("cuda:1", layers[half:])
        self.relay = [torch.empty(512, dim, device="cuda:1") for _ in range(2)]
        self.second.stream.wait_stream(torch.cuda.current_stream("cuda:1"))

    @torch.inference_mode()
    def run(self, batches):
        outputs = []
        with StageStreams([self.first, self.second]):
            for n, host in enumerate(batches):
                x = host.to(self.first.device, non_blocking=True)
                h = self.first(x)
                landing = self.relay[n % 2][: h.shape[0]]
                landing.copy_(h, non_blocking=True)
                del h
                y = self.second(landing)
                outputs.append(y.mean(dim=1))
            result = torch.cat(outputs)
            return result.to(self.first.device, non_blocking=True).cpu()


def main():
    model = TwoStageModel()
    batches = [torch.randn(512, 2048).pin_memory() for _ in range(24)]
    print(model.run(batches).shape)


if __name__ == "__main__":
    main()
