"""Per-frame streams for a batch of video frames; the batch leaves when all streams are done."""
import queue
import threading

import torch
import torch.nn.functional as F


class StreamPool:
    """Round-robin pool; a frame keeps its stream until the batch completes."""

    def __init__(self, size, device):
        self.streams = [torch.cuda.Stream(device=device) for _ in range(size)]
        self.next = 0

    def get(self):
        stream = self.streams[self.next]
        self.next = (self.next + 1) % len(self.streams)
        return stream


class Frame:
    def __init__(self, index, image):
        self.index = index
        self.image = image
        self.stream = None


class BackgroundRemover:
    """Running-average background model per source; one stream per frame."""

    def __init__(self, num_sources, shape, device):
        self.device = device
        self.background = [torch.zeros(shape, device=device) for _ in range(num_sources)]
        self.updated = [torch.cuda.Event() for _ in range(num_sources)]
        for event in self.updated:
            event.record(torch.cuda.current_stream(device))

    def process(self, source, frame):
        frame.stream.wait_event(self.updated[source])
        with torch.cuda.stream(frame.stream):
            image = frame.image.to(self.device, non_blocking=True).permute(2, 0, 1).float().div_(255.0)
            background = self.background[source]
            mask = (image - background).abs().amax(dim=0, keepdim=True).gt(0.1).float()
            mask = F.max_pool2d(mask.unsqueeze(0), 7, stride=1, padding=3).squeeze(0)
            background.lerp_(image, 0.02)
            self.updated[source].record(frame.stream)
            out = (image * mask).mul_(255.0).byte().permute(1, 2, 0).contiguous()
            host = torch.empty(out.shape, dtype=torch.uint8, pin_memory=True)
            host.copy_(out, non_blocking=True)
        frame.image = host


class BatchStage(threading.Thread):
    """Takes batches of (source, Frame) and forwards them after their streams have completed."""

    def __init__(self, inbox, outbox, num_sources, shape, device, pool_size=8):
        super().__init__(daemon=True)
        self.inbox = inbox
        self.outbox = outbox
        self.device = device
        self.pool = StreamPool(pool_size, device)
        self.remover = BackgroundRemover(num_sources, shape, device)
        current = torch.cuda.current_stream(device)
        for stream in self.pool.streams:
            stream.wait_stream(current)

    def _complete(self, batch):
        for stream in {frame.stream for _, frame in batch}:
            stream.synchronize()
        for _, frame in batch:
            frame.stream = None

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            batch = self.inbox.get()
            if batch is None:
                self.outbox.put(None)
                return
            with torch.inference_mode():
                for source, frame in batch:
                    frame.stream = self.pool.get()
                    self.remover.process(source, frame)
            self._complete(batch)
            self.outbox.put(batch)


def run(sources, writer, shape=(3, 720, 1280)):
    device = torch.device("cuda", 0)
    inbox, outbox = queue.Queue(maxsize=4), queue.Queue(maxsize=4)
    stage = BatchStage(inbox, outbox, len(sources), shape, device)
    stage.start()

    def feed():
        for index, images in enumerate(zip(*sources)):
            inbox.put([(s, Frame(index, torch.from_numpy(im).pin_memory())) for s, im in enumerate(images)])
        inbox.put(None)

    threading.Thread(target=feed, daemon=True).start()
    while (batch := outbox.get()) is not None:
        for source, frame in batch:
            writer.write(source, frame.index, frame.image.numpy())
