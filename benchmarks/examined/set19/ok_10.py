"""Layer streaming: two resident weight slots, the next layer uploads while the current one computes."""
import torch


class LayerSlot:
    def __init__(self, numel, dtype):
        self.flat = torch.empty(numel, dtype=dtype, device="cuda")
        self.loaded = torch.cuda.Event()
        self.released = torch.cuda.Event()
        self.layer = None
        self.released.record()


class StreamedLayers:
    def __init__(self, layers, dtype=torch.bfloat16):
        self.layers = list(layers)
        self.dtype = dtype
        self.host = [self._flatten(m) for m in self.layers]
        numel = max(h.numel() for h in self.host)
        self.upload_stream = torch.cuda.Stream()
        self.slots = [LayerSlot(numel, dtype) for _ in range(2)]
        self.layout = [self._layout(m) for m in self.layers]
        self._release_params()

    def _flatten(self, module):
        params = [p.detach().to("cpu", self.dtype).reshape(-1) for p in module.parameters()]
        return torch.cat(params).pin_memory()

    def _layout(self, module):
        offset, out = 0, []
        for p in module.parameters():
            out.append((p, offset, p.shape))
            offset += p.numel()
        return out

    def _release_params(self):
        empty = torch.empty(0, dtype=self.dtype, device="cuda")
        for entries in self.layout:
            for p, _, _ in entries:
                p.data = empty

    def _upload(self, index):
        slot = self.slots[index % 2]
        src = self.host[index]
        self.upload_stream.wait_event(slot.released)
        with torch.cuda.stream(self.upload_stream):
            slot.flat[: src.numel()].copy_(src, non_blocking=True)
            slot.loaded.record(self.upload_stream)
        slot.layer = index

    def _bind(self, index):
        slot = self.slots[index % 2]
        assert slot.layer == index
        torch.cuda.current_stream().wait_event(slot.loaded)
        for p, offset, shape in self.layout[index]:
            p.data = slot.flat[offset : offset + shape.numel()].view(shape)

    def _unbind(self, index):
        slot = self.slots[index % 2]
        slot.released.record(torch.cuda.current_stream())
        empty = slot.flat[:0]
        for p, _, _ in self.layout[index]:
            p.data = empty

    @torch.no_grad()
    def forward(self, x):
        self._upload(0)
        for i, layer in enumerate(self.layers):
            if i + 1 < len(self.layers):
                self._upload(i + 1)
            self._bind(i)
            x = layer(x)
            self._unbind(i)
        return x


def sample(transformer, latents, sigmas):
    streamed = StreamedLayers(transformer.blocks)
    with torch.no_grad():
        for cur, nxt in zip(sigmas[:-1], sigmas[1:]):
            hidden = transformer.embed(latents, cur)
            hidden = streamed.forward(hidden)
            latents = latents + (nxt - cur) * transformer.head(hidden)
    return latents.float().cpu()
