import torch


class CUDAStreamManager:
    """Overlaps host-to-device transfers with compute."""

    def __init__(self):
        self.stream_in = torch.cuda.Stream()
        self.stream_compute = torch.cuda.Stream()

    def async_transfer(self, tensor_dst, tensor_src):
        """Copies ``tensor_src`` to ``tensor_dst`` on the input stream."""
        with torch.cuda.stream(self.stream_in):
            tensor_dst.copy_(tensor_src, non_blocking=True)

    def compute(self, fn, *args, **kwargs):
        """Runs ``fn`` on the compute stream."""
        with torch.cuda.stream(self.stream_compute):
            return fn(*args, **kwargs)

    def synchronize(self):
        self.stream_in.synchronize()
        self.stream_compute.synchronize()


class PanelEncoder(torch.nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.conv = torch.nn.Sequential(
            torch.nn.Conv2d(1, width, 3, stride=2), torch.nn.ReLU(),
            torch.nn.Conv2d(width, width, 3, stride=2), torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        self.head = torch.nn.Linear(width, 2)

    def forward(self, panels):
        return self.head(self.conv(panels))


class BongardEvaluator:
    def __init__(self, batch, size):
        self.model = PanelEncoder().cuda().eval()
        self.panels = torch.zeros(batch, 1, size, size, device="cuda")
        self.manager = CUDAStreamManager()
        torch.cuda.synchronize()

    @torch.inference_mode()
    def predict(self, host_panels):
        n = host_panels.shape[0]
        self.manager.async_transfer(self.panels[:n], host_panels.pin_memory())
        logits = self.manager.compute(self.model, self.panels[:n])
        self.manager.synchronize()
        return logits.cpu()


def evaluate(loader, batch=256, size=128):
    evaluator = BongardEvaluator(batch, size)
    correct = total = 0
    for panels, labels in loader:
        pred = evaluator.predict(panels).argmax(dim=1)
        correct += (pred == labels).sum().item()
        total += labels.numel()
    return correct / max(total, 1)
