import logging
import queue
import threading

import torch

logger = logging.getLogger(__name__)


class PipelineProcessor:
    def __init__(self, pipeline, chunk_size=4):
        self.pipeline = pipeline
        self.chunk_size = chunk_size
        self.input_queue = queue.Queue(maxsize=30)
        self.output_queue = queue.Queue(maxsize=8)
        self.worker_thread = threading.Thread(target=self.worker_loop, daemon=True)
        self.running = False

    def start(self):
        self.running = True
        self.worker_thread.start()

    @torch.inference_mode()
    def worker_loop(self):
        while self.running:
            chunk = [self.input_queue.get() for _ in range(self.chunk_size)]
            video = torch.cat(chunk).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
            output = self.pipeline(video=video)
            output = (output.clamp(0, 1) * 255).to(torch.uint8).permute(0, 2, 3, 1)
            for frame in output:
                self.output_queue.put(frame.unsqueeze(0).cpu())


class FrameProcessor:
    def __init__(self, processor):
        self.processor = processor
        self.running = False
        self._pinned_buffers = {}
        self._pinned_lock = threading.Lock()

    def start(self):
        self.running = True
        self.processor.start()

    def _get_pinned_buffer(self, shape):
        with self._pinned_lock:
            buf = self._pinned_buffers.get(shape)
            if buf is None:
                buf = (torch.empty(shape, dtype=torch.uint8, pin_memory=True), torch.cuda.Event())
                self._pinned_buffers[shape] = buf
            return buf

    def put(self, frame) -> bool:
        if not self.running:
            return False
        frame_array = frame.to_ndarray(format="rgb24")
        if torch.cuda.is_available():
            pinned, uploaded = self._get_pinned_buffer(frame_array.shape)
            uploaded.synchronize()
            pinned.copy_(torch.from_numpy(frame_array))
            frame_tensor = pinned.cuda(non_blocking=True)
            uploaded.record()
        else:
            frame_tensor = torch.from_numpy(frame_array)

        try:
            self.processor.input_queue.put_nowait(frame_tensor.unsqueeze(0))
        except queue.Full:
            logger.debug("First processor input queue full, dropping frame")
            return False
        return True

    def get(self):
        if not self.running:
            return None
        try:
            return self.processor.output_queue.get_nowait().squeeze(0).numpy()
        except queue.Empty:
            return None
