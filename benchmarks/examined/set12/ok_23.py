from threading import Lock

import numpy as np
import torch


def frame_to_tensor(planes, device):
    array = np.stack([np.asarray(p) for p in planes])
    return torch.from_numpy(array).to(device, non_blocking=True)


def tensor_to_planes(tensor, planes):
    array = tensor.cpu().numpy()
    for i, plane in enumerate(planes):
        np.copyto(np.asarray(plane), array[i])


class VSInference:
    """Called by VapourSynth from several threads at once."""

    def __init__(self, model, device="cuda", scale=2):
        self.model = model
        self.device = torch.device(device)
        self.scale = scale
        self.f2t_lock = Lock()
        self.inf_lock = Lock()
        self.t2f_lock = Lock()
        self.f2t_stream = torch.cuda.Stream(self.device)
        self.inf_stream = torch.cuda.Stream(self.device)
        self.t2f_stream = torch.cuda.Stream(self.device)
        torch.cuda.synchronize(self.device)

    def _upload(self, frame):
        with self.f2t_lock, torch.cuda.stream(self.f2t_stream):
            img = frame_to_tensor(frame, self.device).unsqueeze(0).half()
            self.f2t_stream.synchronize()
        return img

    def _infer(self, img):
        with self.inf_lock, torch.cuda.stream(self.inf_stream):
            out = self.model(img)
            self.inf_stream.synchronize()
        return out

    def _download(self, out, planes):
        with self.t2f_lock, torch.cuda.stream(self.t2f_stream):
            tensor_to_planes(out.squeeze(0).clamp_(0, 1).float(), planes)

    @torch.inference_mode()
    def __call__(self, n, frame, new_frame):
        img = self._upload(frame)
        out = self._infer(img)
        self._download(out, new_frame)
        del img, out
        return new_frame


def process_clip(clip, model, alloc_frame):
    inference = VSInference(model)
    return [inference(n, frame, alloc_frame(frame)) for n, frame in enumerate(clip)]
