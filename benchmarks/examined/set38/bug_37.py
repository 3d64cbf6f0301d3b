"""ONNX Runtime session bound to torch tensors, for a tracker that runs every frame."""
import sys

import numpy as np
import onnxruntime as ort
import torch


class BoundSession:
    """Inputs and outputs are torch tensors with fixed addresses."""

    def __init__(self, path, shapes, device_id=0):
        self.device_id = device_id
        self.stream = torch.cuda.Stream(device_id)
        options = {
            "device_id": device_id,
            "user_compute_stream": str(self.stream.cuda_stream),
        }
        self.session = ort.InferenceSession(path, providers=[("CUDAExecutionProvider", options)])
        self.run_options = ort.RunOptions()
        self.run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.binding = self.session.io_binding()
        self.inputs, self.outputs = {}, {}
        for node in self.session.get_inputs():
            self.inputs[node.name] = self._tensor(shapes[node.name])
            self._bind(self.binding.bind_input, node.name, self.inputs[node.name])
        for node in self.session.get_outputs():
            self.outputs[node.name] = self._tensor(shapes[node.name])
            self._bind(self.binding.bind_output, node.name, self.outputs[node.name])
        torch.cuda.synchronize(device_id)

    def _tensor(self, shape):
        return torch.zeros(shape, dtype=torch.float32, device=f"cuda:{self.device_id}")

    def _bind(self, fn, name, t):
        fn(name=name, device_type="cuda", device_id=self.device_id,
           element_type=np.float32, shape=tuple(t.shape), buffer_ptr=t.data_ptr())

    def __call__(self, **feeds):
        for name, value in feeds.items():
            self.inputs[name].copy_(value)
        self.stream.wait_stream(torch.cuda.current_stream(self.device_id))
        self.session.run_with_iobinding(self.binding, self.run_options)
        return self.outputs


class Tracker:
    def __init__(self, session, cells, channels):
        self.session = session
        self.template = torch.randn(1, channels, device="cuda")
        self.centers = torch.rand(cells, 2, device="cuda") * 2 - 1
        self.momentum = 0.95

    def update(self, frame):
        out = self.session(image=frame)
        feat = out["features"][0].flatten(1).t()
        sim = torch.softmax(feat @ self.template[0], dim=0)
        where = (sim[:, None] * self.centers).sum(dim=0)
        picked = (sim[:, None] * feat).sum(dim=0, keepdim=True)
        self.template.mul_(self.momentum).add_(picked, alpha=1 - self.momentum)
        return where


def frames(n, size):
    gen = torch.Generator(device="cuda").manual_seed(0)
    for _ in range(n):
        yield torch.rand(1, 3, size, size, device="cuda", generator=gen)


def main(path, size=256, channels=256, grid=16):
    shapes = {"image": (1, 3, size, size), "features": (1, channels, grid, grid)}
    tracker = Tracker(BoundSession(path, shapes), grid * grid, channels)
    path_xy = [tracker.update(f) for f in frames(120, size)]
    track = torch.stack(path_xy).cpu().numpy()
    print("mean", track.mean(axis=0), "spread", track.std(axis=0))


if __name__ == "__main__":
    main(sys.argv[1])
