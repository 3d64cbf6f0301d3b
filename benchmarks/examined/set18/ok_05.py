"""ONNX Runtime session bound to torch CUDA tensors, ordered with the caller's stream."""
import numpy as np
import onnxruntime as ort
import torch

_NUMPY = {
    torch.float32: np.float32,
    torch.float16: np.float16,
    torch.int64: np.int64,
    torch.int32: np.int32,
}


class OnnxCudaRuntime:
    """Executes on a private torch stream and fences it against the caller's stream."""

    def __init__(self, onnx_path, input_specs, output_specs, device_id=0):
        self.device = torch.device("cuda", device_id)
        self.device_id = device_id
        self.input_specs = input_specs
        self.output_specs = output_specs
        self._torch_stream = torch.cuda.Stream(device=self.device)
        options = {
            "device_id": device_id,
            "user_compute_stream": str(int(self._torch_stream.cuda_stream)),
        }
        session_options = ort.SessionOptions()
        session_options.log_severity_level = 3
        self._session = ort.InferenceSession(
            str(onnx_path), sess_options=session_options,
            providers=[("CUDAExecutionProvider", options)],
        )
        self._outputs = None

    def _bind(self, method, name, tensor):
        method(
            name=name,
            device_type="cuda",
            device_id=self.device_id,
            element_type=_NUMPY[tensor.dtype],
            shape=tuple(tensor.shape),
            buffer_ptr=tensor.data_ptr(),
        )

    def __call__(self, inputs):
        """Returned buffers are reused by the next call."""
        binding = self._session.io_binding()
        bound = {}
        for name, dtype in self.input_specs.items():
            bound[name] = inputs[name].to(self.device, dtype).contiguous()
            self._bind(binding.bind_input, name, bound[name])
        batch = next(iter(bound.values())).shape[0]
        if self._outputs is None or next(iter(self._outputs.values())).shape[0] != batch:
            self._outputs = {
                name: torch.empty((batch, *shape), dtype=dtype, device=self.device)
                for name, (shape, dtype) in self.output_specs.items()
            }
        for name, tensor in self._outputs.items():
            self._bind(binding.bind_output, name, tensor)
        current = torch.cuda.current_stream(self.device)
        self._torch_stream.wait_stream(current)
        self._session.run_with_iobinding(binding)
        current.wait_stream(self._torch_stream)
        return dict(self._outputs)


def letterbox(frames, size):
    scale = size / max(frames.shape[1:3])
    x = frames.permute(0, 3, 1, 2).float().div_(255.0)
    x = torch.nn.functional.interpolate(x, scale_factor=scale, mode="bilinear")
    pad = (0, size - x.shape[3], 0, size - x.shape[2])
    return torch.nn.functional.pad(x, pad), scale


class PoseEstimator:
    def __init__(self, onnx_path, n_keypoints=133, size=384):
        self.size = size
        self.runtime = OnnxCudaRuntime(
            onnx_path,
            {"input": torch.float32},
            {
                "simcc_x": ((n_keypoints, size * 2), torch.float32),
                "simcc_y": ((n_keypoints, size * 2), torch.float32),
            },
        )

    @torch.inference_mode()
    def predict(self, frames):
        """frames: pinned uint8 tensor of shape (N, H, W, 3)."""
        x, scale = letterbox(frames.to("cuda", non_blocking=True), self.size)
        out = self.runtime({"input": x})
        sx, ix = out["simcc_x"].max(dim=-1)
        sy, iy = out["simcc_y"].max(dim=-1)
        keypoints = torch.stack([ix, iy], dim=-1).float() / (2.0 * scale)
        return keypoints.cpu().numpy(), torch.minimum(sx, sy).cpu().numpy()


def run(video, estimator, batch=8):
    results, pending = [], []
    for frame in video:
        pending.append(torch.from_numpy(frame))
        if len(pending) == batch:
            results.append(estimator.predict(torch.stack(pending).pin_memory()))
            pending.clear()
    return results
