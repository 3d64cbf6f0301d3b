"""Video keypoint prediction: GPU loader output into an ONNX Runtime session."""
import numpy as np
import onnxruntime as ort
import torch

_NUMPY = {torch.float16: np.float16, torch.float32: np.float32}


class LoadedClip:
    """Batch as a GPU loader returns it."""

    def __init__(self, frames):
        self.frames = frames.pin_memory().cuda(non_blocking=True)

    def __len__(self):
        return len(self.frames)


class KeypointPredictor:
    def __init__(self, path, dtype=torch.float16, keypoints=12, device_id=0):
        self.session = ort.InferenceSession(path, providers=[("CUDAExecutionProvider", {"device_id": device_id})])
        self.dtype, self.keypoints, self.device_id = dtype, keypoints, device_id

    def _prepare(self, clip):
        torch.cuda.synchronize()
        images = clip.frames.float().div(255).sub(0.45).div(0.225)
        return images.to(self.dtype).contiguous()

    @torch.inference_mode()
    def predict(self, clip):
        images = self._prepare(clip)
        out = torch.empty(len(clip), self.keypoints, 2, device="cuda")
        io = self.session.io_binding()
        io.bind_input(
            name=self.session.get_inputs()[0].name, device_type="cuda", device_id=self.device_id,
            element_type=_NUMPY[self.dtype], shape=tuple(images.shape), buffer_ptr=images.data_ptr(),
        )
        io.bind_output(
            name=self.session.get_outputs()[0].name, device_type="cuda", device_id=self.device_id,
            element_type=np.float32, shape=tuple(out.shape), buffer_ptr=out.data_ptr(),
        )
        self.session.run_with_iobinding(io)
        return out.cpu().numpy()


def main():
    predictor = KeypointPredictor("keypoints_fp16.onnx")
    tracks = []
    for seed in range(50):
        gen = torch.Generator().manual_seed(seed)
        frames = torch.randint(0, 256, (96, 3, 256, 256), generator=gen, dtype=torch.uint8)
        tracks.append(predictor.predict(LoadedClip(frames)))
    print(np.concatenate(tracks).mean(0))


if __name__ == "__main__":
    main()
