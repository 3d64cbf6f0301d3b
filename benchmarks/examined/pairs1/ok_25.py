"""Expert weights are dequantised by a pool of loader threads, one stream per thread."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

_local = threading.local()


def thread_stream():
    if not hasattr(_local, "stream"):
        _local.stream = torch.cuda.Stream()
    return _local.stream


class ExpertLoader:
    def __init__(self, packed, scales, workers=4):
        self.packed = [p.pin_memory() for p in packed]
        self.scales = [s.pin_memory() for s in scales]
        self.pool = ThreadPoolExecutor(workers)

    def _load(self, i):
        stream = thread_stream()
        with torch.cuda.stream(stream):
            q = self.packed[i].to("cuda", non_blocking=True)
            s = self.scales[i].to("cuda", non_blocking=True)
            weight = q.to(torch.float16) * s
            return weight, stream.record_event()

    def load_all(self):
        futures = [self.pool.submit(self._load, i) for i in range(len(self.packed))]
        main = torch.cuda.current_stream()
        weights = []
        for f in futures:
            weight, event = f.result()
            main.wait_event(event)
            weight.record_stream(main)
            weights.append(weight)
        return weights


def main(layers=4, experts=32, dim=1024):
    h = torch.randn(16, dim, device="cuda", dtype=torch.float16)
    for _ in range(layers):
        packed = [torch.randint(-127, 127, (dim, dim), dtype=torch.int8) for _ in range(experts)]
        scales = [torch.rand(dim, 1).half() / 2000 for _ in range(experts)]
        weights = ExpertLoader(packed, scales).load_all()
        h = torch.tanh(sum(h @ w for w in weights) / experts)
    print(h.float().norm().item())


if __name__ == "__main__":
    main()
