"""Model cache that moves models between the storage and the execution device."""
import time

import torch


class CacheRecord:
    def __init__(self, key, model, size):
        self.key = key
        self.model = model
        self.size = size
        self.device = torch.device("cpu")
        self._locks = 0

    def lock(self):
        self._locks += 1

    def unlock(self):
        self._locks -= 1

    @property
    def locked(self):
        return self._locks > 0


class ModelCache:
    def __init__(self, max_vram_bytes, execution_device="cuda", storage_device="cpu"):
        self.max_vram = max_vram_bytes
        self.execution_device = torch.device(execution_device)
        self.storage_device = torch.device(storage_device)
        self._records = {}
        self.stats = {"moves": 0, "seconds": 0.0}

    def put(self, key, model):
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        self._records[key] = CacheRecord(key, model, size)
        return self._records[key]

    def _vram_in_use(self):
        return sum(r.size for r in self._records.values() if r.device.type == "cuda")

    def move_model_to_device(self, record, target):
        target = torch.device(target)
        if record.device.type == target.type:
            return
        start = time.time()
        new_state = {}
        for name, tensor in record.model.state_dict().items():
            new_state[name] = tensor.to(target, copy=True, non_blocking=True)
        record.model.load_state_dict(new_state, assign=True)
        record.device = target
        self.stats["moves"] += 1
        self.stats["seconds"] += time.time() - start

    def make_room(self, wanted):
        for record in sorted(self._records.values(), key=lambda r: r.size):
            if self._vram_in_use() + wanted <= self.max_vram:
                break
            if record.device.type == "cuda" and not record.locked:
                self.move_model_to_device(record, self.storage_device)

    def load(self, key):
        record = self._records[key]
        self.make_room(record.size)
        self.move_model_to_device(record, self.execution_device)
        record.lock()
        return record


@torch.inference_mode()
def encode_then_denoise(cache, tokens, latents):
    encoder = cache.load("text_encoder")
    embeds = encoder.model(tokens.to("cuda"))
    encoder.unlock()

    cache.move_model_to_device(encoder, cache.storage_device)
    bias = encoder.model(tokens[:1])

    unet = cache.load("unet")
    out = unet.model(latents.to("cuda") + embeds.mean() + bias.mean().item())
    unet.unlock()
    return out.cpu()
