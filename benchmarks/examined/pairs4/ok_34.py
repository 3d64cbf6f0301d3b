"""Pose tracking with ONNX Runtime bound to PyTorch memory."""
import numpy as np
import onnxruntime as ort
import torch


class OrtModel:
    def __init__(self, path, out_shape):
        self.session = ort.InferenceSession(path, providers=["CUDAExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        self.output = self.session.get_outputs()[0].name
        self.result = torch.empty(out_shape, device="cuda")

    def run(self, images):
        images = images.to(torch.float16).contiguous()
        torch.cuda.current_stream().synchronize()
        binding = self.session.io_binding()
        binding.bind_input(self.input, "cuda", 0, np.float16, tuple(images.shape), images.data_ptr())
        binding.bind_output(self.output, "cuda", 0, np.float32, tuple(self.result.shape), self.result.data_ptr())
        self.session.run_with_iobinding(binding)
        return self.result


class Tracker:
    def __init__(self, path, batch):
        self.model = OrtModel(path, (batch, 17, 64, 64))
        self.smooth = None

    def track(self, clip):
        x = clip.pin_memory().to("cuda", non_blocking=True).float().div_(255)
        x = (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-5)
        heat = self.model.run(x)
        peak = heat.flatten(2).argmax(-1)
        points = torch.stack([peak % 64, peak // 64], -1).float()
        self.smooth = points if self.smooth is None else torch.lerp(self.smooth, points, 0.3)
        return self.smooth.cpu()


def main():
    tracker = Tracker("pose_fp16.onnx", 8)
    out = [tracker.track(torch.randint(0, 256, (8, 3, 256, 256), dtype=torch.uint8)) for _ in range(100)]
    print(torch.stack(out).std().item())


if __name__ == "__main__":
    main()
