"""Face embedding service: torch preprocessing feeding an ONNX Runtime session by IO binding."""
import queue
import threading

import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F


class ArcFaceSession:
    def __init__(self, model_path, max_batch=32, device_id=0):
        self.device_id = device_id
        self.session = ort.InferenceSession(
            model_path,
            providers=[("CUDAExecutionProvider", {
                "device_id": device_id,
                "cudnn_conv_algo_search": "EXHAUSTIVE",
            })],
        )
        self.input_name = self.session.get_inputs()[0].name
        self.output_name = self.session.get_outputs()[0].name
        self.embeddings = torch.empty((max_batch, 512), device=f"cuda:{device_id}")

    def __call__(self, faces):
        n = faces.shape[0]
        binding = self.session.io_binding()
        binding.bind_input(
            name=self.input_name,
            device_type="cuda",
            device_id=self.device_id,
            element_type=np.float32,
            shape=tuple(faces.shape),
            buffer_ptr=faces.data_ptr(),
        )
        binding.bind_output(
            name=self.output_name,
            device_type="cuda",
            device_id=self.device_id,
            element_type=np.float32,
            shape=(n, 512),
            buffer_ptr=self.embeddings.data_ptr(),
        )
        self.session.run_with_iobinding(binding)
        return self.embeddings[:n]


class FaceAligner:
    """Crops and normalizes faces on a stream of its own."""

    def __init__(self, device, size=112):
        self.device = device
        self.size = size
        self.stream = torch.cuda.Stream(device=device)

    def __call__(self, frame, thetas):
        with torch.cuda.stream(self.stream):
            image = torch.from_numpy(frame).pin_memory().to(self.device, non_blocking=True)
            image = image.permute(2, 0, 1).float().sub_(127.5).div_(127.5)
            theta = torch.from_numpy(thetas).pin_memory().to(self.device, non_blocking=True)
            grid = F.affine_grid(theta, (theta.shape[0], 3, self.size, self.size), align_corners=False)
            batch = image.unsqueeze(0).expand(theta.shape[0], -1, -1, -1)
            return F.grid_sample(batch, grid, align_corners=False).contiguous()


class EmbeddingService(threading.Thread):
    def __init__(self, model_path, gallery, threshold=0.4):
        super().__init__(daemon=True)
        self.device = torch.device("cuda", 0)
        self.aligner = FaceAligner(self.device)
        self.arcface = ArcFaceSession(model_path)
        self.gallery = F.normalize(torch.from_numpy(gallery).to(self.device), dim=1)
        self.threshold = threshold
        self.inbox = queue.Queue(maxsize=4)
        self.outbox = queue.Queue()

    @torch.inference_mode()
    def identify(self, frame, thetas):
        faces = self.aligner(frame, thetas)
        embeddings = self.arcface(faces)
        similarity = F.normalize(embeddings, dim=1) @ self.gallery.T
        score, index = similarity.max(dim=1)
        index = torch.where(score > self.threshold, index, torch.full_like(index, -1))
        return index.cpu().numpy(), score.cpu().numpy()

    def run(self):
        while True:
            item = self.inbox.get()
            if item is None:
                return
            frame_id, frame, thetas = item
            self.outbox.put((frame_id, *self.identify(frame, thetas)))
