"""Key and value pages are packed to 8 bit on two streams."""
import torch


class PackedPage:
    __slots__ = ("k", "v", "ks", "vs", "ready")

    def __init__(self):
        self.ready = torch.cuda.Event()


class KVPacker:
    def __init__(self, keys, values):
        self.keys, self.values = keys, values
        self.k_stream = torch.cuda.Stream()
        self.v_stream = torch.cuda.Stream()
        self.packed = {}

    @staticmethod
    def _pack(src):
        scale = src.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        return (src / scale).round().to(torch.int8), scale

    def pack(self, page):
        main = torch.cuda.current_stream()
        entry = PackedPage()
        for stream in (self.k_stream, self.v_stream):
            stream.wait_stream(main)
        with torch.cuda.stream(self.k_stream):
            entry.k, entry.ks = self._pack(self.keys[page])
            entry.ready.record()
        with torch.cuda.stream(self.v_stream):
            entry.v, entry.vs = self._pack(self.values[page])
            entry.ready.record()
        self.packed[page] = entry

    def unpack(self, page):
        entry = self.packed[page]
        main = torch.cuda.current_stream()
        main.wait_event(entry.ready)
        for t in (entry.k, entry.ks, entry.v, entry.vs):
            t.record_stream(main)
        return entry.k * entry.ks, entry.v * entry.vs


@torch.inference_mode()
def main(pages=64):
    keys = torch.randn(pages, 2048, 128, device="cuda")
    values = torch.randn(pages, 2048, 128, device="cuda")
    packer = KVPacker(keys, values)
    q = torch.randn(1, 32, 128, device="cuda")
    outs = []
    for page in range(pages):
        packer.pack(page)
        k, v = packer.unpack(page)
        outs.append(torch.nn.functional.scaled_dot_product_attention(q, k[None], v[None]))
    print(torch.cat(outs).norm().item())


if __name__ == "__main__":
    main()
