"""Eager PyTorch around an engine that always runs on a private stream."""
from contextlib import contextmanager

import tensorrt as trt
import torch
import torch.nn as nn


class StreamBridge:
    """Lets a block of raw pointer work run on another stream."""

    def __init__(self, device):
        self.device = device
        self.private = torch.cuda.Stream(device)

    @contextmanager
    def enter(self):
        caller = torch.cuda.current_stream(self.device)
        forked = torch.cuda.Event()
        forked.record(caller)
        self.private.wait_event(forked)
        yield self.private
        joined = torch.cuda.Event()
        joined.record(self.private)
        caller.wait_event(joined)


class TRTBackbone(nn.Module):
    def __init__(self, path: str, in_name="input", out_name="features", device="cuda"):
        super().__init__()
        with open(path, "rb") as f:
            runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.in_name, self.out_name = in_name, out_name
        self.bridge = StreamBridge(torch.device(device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        self.context.set_input_shape(self.in_name, tuple(x.shape))
        out = torch.empty(tuple(self.context.get_tensor_shape(self.out_name)), device=x.device)
        self.context.set_tensor_address(self.in_name, x.data_ptr())
        self.context.set_tensor_address(self.out_name, out.data_ptr())
        with self.bridge.enter() as stream:
            if not self.context.execute_async_v3(stream.cuda_stream):
                raise RuntimeError("TensorRT enqueue failed")
        return out


class Retrieval(nn.Module):
    def __init__(self, backbone: TRTBackbone, gallery: torch.Tensor):
        super().__init__()
        self.backbone = backbone
        self.register_buffer("gallery", nn.functional.normalize(gallery, dim=-1))

    @torch.inference_mode()
    def forward(self, images):
        images = images.sub(0.5).mul_(2.0)
        features = self.backbone(images).flatten(1)
        del images
        features = nn.functional.normalize(features, dim=-1)
        return (features @ self.gallery.T).topk(5).indices


def main(path: str = "resnet.engine", rounds: int = 30):
    backbone = TRTBackbone(path)
    model = Retrieval(backbone, torch.randn(10000, 2048)).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    hits = []
    for i in range(rounds):
        if i % 2:
            hits.append(model(torch.rand(8, 3, 224, 224, device="cuda")).cpu())
        else:
            with torch.cuda.stream(side):
                hits.append(model(torch.rand(8, 3, 224, 224, device="cuda")).cpu())
    print(torch.cat(hits).unique().numel())


if __name__ == "__main__":
    main()
