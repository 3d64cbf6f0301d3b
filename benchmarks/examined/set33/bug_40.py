from typing import Dict, Iterator, List, Tuple

import torch


class WeightStreamer:
    """Streams flat checkpoint tensors through a few device staging slots."""

    def __init__(self, files: List[Dict[str, torch.Tensor]], max_bytes: int, slots: int = 2,
                 device="cuda"):
        self.device = torch.device(device)
        self.files = files
        self.fill_stream = torch.cuda.Stream(self.device)
        self.slots = [
            torch.empty(max_bytes, dtype=torch.uint8, device=self.device) for _ in range(slots)
        ]
        self.pinned = [torch.empty(max_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(slots)]
        self.filled = [torch.cuda.Event() for _ in range(slots)]

    def _fill(self, slot: int, tensor: torch.Tensor) -> torch.Tensor:
        nbytes = tensor.numel() * tensor.element_size()
        self.filled[slot].synchronize()
        self.pinned[slot][:nbytes].copy_(tensor.contiguous().view(-1).view(torch.uint8))
        with torch.cuda.stream(self.fill_stream):
            dst = self.slots[slot][:nbytes]
            dst.copy_(self.pinned[slot][:nbytes], non_blocking=True)
            self.filled[slot].record(self.fill_stream)
        return dst.view(tensor.dtype).view(tensor.shape)

    def tensors(self) -> Iterator[Tuple[str, torch.Tensor]]:
        index = 0
        for content in self.files:
            for name, tensor in content.items():
                slot = index % len(self.slots)
                view = self._fill(slot, tensor)
                torch.cuda.current_stream(self.device).wait_event(self.filled[slot])
                yield name, view
                index += 1


class ModelLoader:
    def __init__(self, model: torch.nn.Module):
        self.params = dict(model.named_parameters())

    @torch.no_grad()
    def load(self, streamer: WeightStreamer) -> List[str]:
        left = set(self.params)
        for name, weight in streamer.tensors():
            param = self.params.get(name)
            if param is None:
                continue
            if weight.dtype != param.dtype:
                weight = weight.to(param.dtype)
            param.copy_(weight)
            left.discard(name)
        return sorted(left)


def load_checkpoint(model: torch.nn.Module, paths: List[str]) -> List[str]:
    files = [torch.load(p, map_location="cpu", weights_only=True) for p in paths]
    biggest = max(t.numel() * t.element_size() for f in files for t in f.values())
    streamer = WeightStreamer(files, biggest)
    return ModelLoader(model).load(streamer)
