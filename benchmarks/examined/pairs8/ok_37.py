import json
import os

import cupy as cp
import kvikio
import torch


class DirectLoader:
    """Reads weight files straight into device memory."""

    def __init__(self, root):
        self.root = root
        with open(os.path.join(root, "index.json")) as f:
            self.index = json.load(f)

    def load(self, adapter):
        entry = self.index[adapter]
        arrays, futures = {}, []
        with kvikio.CuFile(os.path.join(self.root, entry["file"]), "r") as f:
            for tensor in entry["tensors"]:
                buf = cp.empty(tensor["shape"], dtype=cp.float16)
                futures.append(f.pread(buf, file_offset=tensor["offset"]))
                arrays[tensor["name"]] = buf
            read = sum(future.get() for future in futures)
        if read != sum(a.nbytes for a in arrays.values()):
            raise IOError(f"short read for {adapter}")
        return {name: torch.from_dlpack(a) for name, a in arrays.items()}


class AdapterServer:
    def __init__(self, root, base):
        self.loader = DirectLoader(root)
        self.base = base
        self.adapters = {}

    def merged(self, adapter):
        if adapter not in self.adapters:
            w = self.loader.load(adapter)
            self.adapters[adapter] = w["lora_b"] @ w["lora_a"]
        return self.base + self.adapters[adapter]

    def run(self, adapter, x):
        return x @ self.merged(adapter).T


def main():
    base = torch.randn(2048, 2048, dtype=torch.float16, device="cuda")
    server = AdapterServer("/models/adapters", base)
    x = torch.randn(8, 2048, dtype=torch.float16, device="cuda")
    for name in ("sql", "chat", "sql", "code"):
        print(name, server.run(name, x).float().norm().item())


if __name__ == "__main__":
    main()
