import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class TrainingSample:
    camera: object
    image: torch.Tensor
    mask: torch.Tensor
    depth: torch.Tensor
    depth_ready: torch.cuda.Event


class PipelinedImageLoader:
    def __init__(self, dataset, device, prefetch=4):
        self.dataset = dataset
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.output = queue.Queue(maxsize=prefetch)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _load(self, camera):
        image_u8, mask_u8, depth_f = self.dataset.read(camera)
        with torch.cuda.stream(self.stream):
            depth = depth_f.to(self.device, non_blocking=True).mul_(camera.depth_scale)
            depth_ready = torch.cuda.Event()
            depth_ready.record(self.stream)
            image = image_u8.to(self.device, non_blocking=True).permute(2, 0, 1)
            image = image.float().div_(255.0)
            mask = mask_u8.to(self.device, non_blocking=True).gt(127)
        return TrainingSample(camera, image, mask, depth, depth_ready)

    def _run(self):
        for camera in self.dataset.cameras():
            self.output.put(self._load(camera))
        self.output.put(None)


class Trainer:
    def __init__(self, model, optimizer, loader, depth_weight=0.1):
        self.model = model
        self.optimizer = optimizer
        self.loader = loader
        self.depth_weight = depth_weight

    def _loss(self, sample, render):
        photo = (render.rgb - sample.image).abs() * sample.mask
        geo = (render.depth - sample.depth).abs() * sample.mask
        return photo.mean() + self.depth_weight * geo.mean()

    def train(self):
        while True:
            sample = self.loader.output.get()
            if sample is None:
                return
            stream = torch.cuda.current_stream()
            stream.wait_event(sample.depth_ready)
            for t in (sample.image, sample.mask, sample.depth):
                t.record_stream(stream)
            loss = self._loss(sample, self.model(sample.camera))
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
