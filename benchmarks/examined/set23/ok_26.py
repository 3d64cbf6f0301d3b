"""Device aware prefetch loader."""
import torch


class PrefetchLoader:
    def __init__(self, loader, device, mean=0.485, std=0.229):
        self.loader = loader
        self.device = torch.device(device)
        self.is_cpu = self.device.type == "cpu"
        self.mean = mean
        self.std = std
        self.stream = None if self.is_cpu else torch.cuda.Stream(self.device)

    def __len__(self):
        return len(self.loader)

    def _to_device(self, batch):
        moved = {}
        for key, value in batch.items():
            if not isinstance(value, torch.Tensor):
                moved[key] = value
                continue
            value = value.to(self.device, non_blocking=True)
            if value.dtype == torch.uint8:
                value = value.float().div_(255.0).sub_(self.mean).div_(self.std)
            moved[key] = value
        return moved

    def _publish(self, batch):
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        for value in batch.values():
            if isinstance(value, torch.Tensor):
                value.record_stream(current)
        return batch

    def __iter__(self):
        if self.is_cpu:
            for batch in self.loader:
                yield self._to_device(batch)
            return
        ready = None
        for batch in self.loader:
            with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
                upcoming = self._to_device(batch)
            if ready is not None:
                yield self._publish(ready)
            ready = upcoming
        if ready is not None:
            yield self._publish(ready)


def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    seen = 0
    with torch.inference_mode():
        for batch in PrefetchLoader(loader, device):
            pred = model(batch["image"]).argmax(dim=-1)
            correct += (pred == batch["label"]).sum()
            seen += pred.numel()
    return correct.item() / max(seen, 1)
