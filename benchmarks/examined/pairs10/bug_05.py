"""Tracker head on a TensorRT engine; features come from a PyTorch backbone."""
import tensorrt as trt
import torch
import torch.nn as nn


class TrackerHead:
    """Turns search-area features into a response map."""

    def __init__(self, path, map_size=18):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as handle:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(handle.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.features = torch.empty(1, 256, map_size, map_size, device="cuda")
        self.response = torch.empty(1, 1, map_size, map_size, device="cuda")
        self.context.set_tensor_address("features", self.features.data_ptr())
        self.context.set_tensor_address("response", self.response.data_ptr())
        torch.cuda.synchronize()

    def respond(self, features):
        self.features.copy_(features)
        self.context.execute_async_v3(stream_handle=self.stream.cuda_stream)
        self.stream.synchronize()
        return self.response


class Tracker:
    def __init__(self, head_path):
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=4, padding=3), nn.ReLU(),
            nn.Conv2d(64, 256, 3, stride=4, padding=1), nn.ReLU(),
        ).cuda().eval()
        self.head = TrackerHead(head_path)

    @torch.no_grad()
    def track(self, patch):
        response = self.head.respond(self.backbone(patch))
        peak = int(response.flatten().argmax().item())
        return divmod(peak, response.shape[-1])


def main():
    tracker = Tracker("tracker_head.plan")
    positions = []
    for _ in range(100):
        patch = torch.rand(1, 3, 288, 288, device="cuda")
        positions.append(tracker.track(patch))
    print(positions[-1])


if __name__ == "__main__":
    main()
