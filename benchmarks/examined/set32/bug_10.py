"""Model patcher for low-memory generation: asynchronous moves plus LoRA patches on the host copy."""
import contextlib

import torch


class Mover:
    """Moves modules between host and device on a stream of its own."""

    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.offload = torch.device("cpu")

    @contextlib.contextmanager
    def _on_stream(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            yield self.stream

    def to_device(self, module):
        with self._on_stream():
            for p in module.parameters():
                p.data = p.data.to(self.device, non_blocking=True)
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        for p in module.parameters():
            p.data.record_stream(current)

    def to_host(self, module):
        with self._on_stream():
            for p in module.parameters():
                old = p.data
                p.data = old.to(self.offload, non_blocking=True)
                old.record_stream(self.stream)


class ModelPatcher:
    """Applies and removes low-rank patches while the model rests on the host."""

    def __init__(self, model, mover):
        self.model = model
        self.mover = mover
        self.patches = {}
        self.backup = {}
        self.on_device = False

    def add_patches(self, patches, strength=1.0):
        for key, (up, down) in patches.items():
            self.patches.setdefault(key, []).append((strength, up, down))

    def clear_patches(self):
        self.patches.clear()

    def _apply(self):
        params = dict(self.model.named_parameters())
        for key, items in self.patches.items():
            weight = params[key]
            self.backup[key] = weight.data.clone()
            for strength, up, down in items:
                weight.data.add_((up @ down).to(weight.dtype), alpha=strength)

    def _restore(self):
        params = dict(self.model.named_parameters())
        for key, value in self.backup.items():
            params[key].data.copy_(value)
        self.backup.clear()

    def load(self):
        self._apply()
        self.mover.to_device(self.model)
        self.on_device = True

    def unload(self):
        self.mover.to_host(self.model)
        self.on_device = False

    def reload(self):
        """Called when the set of patches changes between two prompts."""
        if self.on_device:
            self.unload()
        self._restore()
        self.load()


class TextEncoder(torch.nn.Module):
    def __init__(self, dim=2048, layers=12):
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            torch.nn.Linear(dim, dim, bias=False) for _ in range(layers)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.nn.functional.gelu(block(x))
        return x


@torch.no_grad()
def generate(prompts, lora, dim=2048):
    patcher = ModelPatcher(TextEncoder(dim), Mover())
    patcher.load()
    outputs = []
    for i, prompt in enumerate(prompts):
        patcher.clear_patches()
        patcher.add_patches(lora, strength=0.1 * i)
        patcher.reload()
        outputs.append(patcher.model(prompt.cuda()))
    return torch.stack(outputs).cpu()
