"""Keypoint inference through ONNX Runtime on torch tensors without host copies."""
import numpy as np
import onnxruntime as ort
import torch

_TORCH_TO_NP = {torch.float32: np.float32, torch.float16: np.float16}


class OrtSession:
    def __init__(self, path, device_id=0, dtype=torch.float16):
        self.device_id = device_id
        self.dtype = dtype
        self.session = ort.InferenceSession(
            path, providers=[("CUDAExecutionProvider", {"device_id": device_id})])
        self.input_name = self.session.get_inputs()[0].name
        self.output_names = [o.name for o in self.session.get_outputs()]

    def forward(self, images, output_shapes):
        images = images.to(self.dtype).contiguous()
        outputs = [torch.empty(s, dtype=self.dtype, device=images.device) for s in output_shapes]
        binding = self.session.io_binding()
        binding.bind_input(self.input_name, "cuda", self.device_id, _TORCH_TO_NP[self.dtype],
                           tuple(images.shape), images.data_ptr())
        for name, out in zip(self.output_names, outputs):
            binding.bind_output(name, "cuda", self.device_id, _TORCH_TO_NP[self.dtype],
                                tuple(out.shape), out.data_ptr())
        torch.cuda.current_stream(images.device).synchronize()
        self.session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return outputs


class VideoPredictor:
    def __init__(self, path, n_keypoints, stream=None):
        self.net = OrtSession(path)
        self.n_keypoints = n_keypoints
        self.stream = stream or torch.cuda.Stream()
        self.mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1)

    def predict(self, frames):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            x = frames.float().div_(255.0).permute(0, 3, 1, 2)
            x = (x - self.mean) / self.std
            b, _, h, w = x.shape
            heat, = self.net.forward(x, [(b, self.n_keypoints, h // 4, w // 4)])
            flat = heat.float().flatten(2)
            conf, idx = flat.max(dim=-1)
            xs, ys = idx % (w // 4), idx // (w // 4)
            packed = torch.stack([xs.float(), ys.float(), conf], dim=-1)
            return packed.cpu().numpy()


def main():
    predictor = VideoPredictor("pose.onnx", 17)
    for _ in range(100):
        frames = torch.randint(0, 255, (16, 256, 256, 3), dtype=torch.uint8, device="cuda")
        kp = predictor.predict(frames)
        print(kp.shape, float(kp[..., 2].mean()))


if __name__ == "__main__":
    main()
