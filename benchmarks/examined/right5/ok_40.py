from concurrent.futures import Future, ThreadPoolExecutor
from typing import Iterable, List

import numpy as np
import torch


class Preprocessor:
    """Decodes and uploads images from a pool of threads; results come as futures."""

    def __init__(self, workers: int = 4, size: int = 224, device: int = 0):
        self.pool = ThreadPoolExecutor(workers)
        self.size, self.device = size, device
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=f"cuda:{device}").view(3, 1, 1)
        torch.cuda.current_stream(device).synchronize()

    def _decode(self, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, 256, (self.size, self.size, 3), dtype=np.uint8)

    def _job(self, seed: int):
        stream = torch.cuda.Stream(self.device)
        host = torch.from_numpy(self._decode(seed)).pin_memory()
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            raw = host.cuda(non_blocking=True)
            img = raw.permute(2, 0, 1).float().div_(255).sub_(self.mean)
            event = stream.record_event()
        return img, event

    def submit(self, seed: int) -> Future:
        return self.pool.submit(self._job, seed)


def batches(futures: Iterable[Future], size: int):
    ready: List[torch.Tensor] = []
    for fut in futures:
        img, event = fut.result()
        stream = torch.cuda.current_stream()
        stream.wait_event(event)
        img.record_stream(stream)
        ready.append(img)
        if len(ready) == size:
            yield torch.stack(ready)
            ready.clear()
    if ready:
        yield torch.stack(ready)


@torch.inference_mode()
def main():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 7, 4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)).cuda()
    pre = Preprocessor()
    feats = [net(b).flatten(1) for b in batches([pre.submit(i) for i in range(128)], 32)]
    print(torch.cat(feats).mean(0)[:4].tolist())


if __name__ == "__main__":
    main()
