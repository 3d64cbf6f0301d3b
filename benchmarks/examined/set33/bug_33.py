from typing import Dict, List, Optional

import torch


class AsyncSaver:
    """Stages tensors in pinned memory on its own stream, writes them later."""

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device)
        self.done = torch.cuda.Event()
        self.staging: Dict[str, torch.Tensor] = {}
        self.path: Optional[str] = None

    def begin_save(self, tensors: Dict[str, torch.Tensor], path: str) -> None:
        self.finish_save()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, t in tensors.items():
                host = self.staging.get(name)
                if host is None:
                    host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
                    self.staging[name] = host
                host.copy_(t, non_blocking=True)
            self.done.record(self.stream)
        self.path = path

    def finish_save(self) -> None:
        if self.path is None:
            return
        self.done.synchronize()
        torch.save(self.staging, self.path)
        self.path = None


class OffloadableState:
    """Adam moments that can leave the device between training phases."""

    def __init__(self, params: List[torch.nn.Parameter]):
        self.params = params
        self.moments: Dict[str, torch.Tensor] = {}
        self.backup: Dict[str, torch.Tensor] = {}
        for i, p in enumerate(params):
            self.moments[f"{i}.exp_avg"] = torch.zeros_like(p.data)
            self.moments[f"{i}.exp_avg_sq"] = torch.zeros_like(p.data)

    def offload(self) -> None:
        for name, t in self.moments.items():
            if name not in self.backup:
                self.backup[name] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            self.backup[name].copy_(t, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        for t in self.moments.values():
            t.untyped_storage().resize_(0)

    def onload(self) -> None:
        for name, t in self.moments.items():
            t.untyped_storage().resize_(t.numel() * t.element_size())
            t.copy_(self.backup[name], non_blocking=True)


class PolicyWorker:
    def __init__(self, model: torch.nn.Module, generate):
        self.model = model
        self.generate = generate
        self.state = OffloadableState([p for p in model.parameters() if p.requires_grad])
        self.saver = AsyncSaver(next(model.parameters()).device)

    def save_checkpoint(self, path: str) -> None:
        self.saver.begin_save(self.state.moments, path)

    def rollout(self, prompts):
        self.state.offload()
        try:
            return self.generate(self.model, prompts)
        finally:
            self.state.onload()

    def close(self) -> None:
        self.saver.finish_save()
