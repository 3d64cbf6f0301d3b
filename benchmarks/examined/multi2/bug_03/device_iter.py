import torch


class DeviceBatches:
    """Iterates over (images, labels) on the GPU, one batch ahead of the user."""

    def __init__(self, rack, device="cuda"):
        self.rack = rack
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream()
        self.batches = 0
        self.samples = 0

    def _count(self, tray):
        self.batches += 1
        self.samples += tray.count

    @property
    def mean_size(self):
        return self.samples / max(self.batches, 1)

    def _upload(self):
        tray = self.rack.full.get()
        if tray is None:
            return None
        with torch.cuda.stream(self.stream):
            images = tray.images.to(self.device, non_blocking=True)
            labels = tray.labels.to(self.device, non_blocking=True)
        tray.stamp = self.stream.record_event()
        return tray, images, labels

    def __iter__(self):
        held = self._upload()
        while held is not None:
            tray, images, labels = held
            here = torch.cuda.current_stream()
            here.wait_event(tray.stamp)
            images.record_stream(here)
            labels.record_stream(here)
            self._count(tray)
            self.rack.empty.put(tray)
            held = self._upload()
            yield images, labels
