"""CuPy raw kernel over torch batches on a side stream; nested batches are marked in use."""
import cupy as cp
import torch

_clamp = cp.RawKernel(r'''
extern "C" __global__ void clampk(float* x, float lo, float hi, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) x[i] = fminf(fmaxf(x[i], lo), hi);
}''', "clampk")


def tensors_of(batch):
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, dict):
        for v in batch.values():
            yield from tensors_of(v)
    elif isinstance(batch, (list, tuple)):
        for v in batch:
            yield from tensors_of(v)


class SideClamp:
    def __init__(self, lo, hi):
        self.lo, self.hi = cp.float32(lo), cp.float32(hi)
        self.stream = torch.cuda.Stream()
        self.external = cp.cuda.ExternalStream(self.stream.cuda_stream)

    def start(self, batch):
        self.stream.wait_stream(torch.cuda.current_stream())
        with self.external:
            for t in tensors_of(batch):
                t.record_stream(self.stream)
                n = t.numel()
                _clamp(((n + 255) // 256,), (256,),
                       (cp.uint64(t.data_ptr()), self.lo, self.hi, cp.int64(n)))
        return self.stream.record_event()


def make_batch():
    return {"x": torch.randn(64, 128, device="cuda"),
            "aux": [torch.randn(64, device="cuda"), torch.randn(64, 4, device="cuda")]}


def main(steps=5):
    side = SideClamp(-1, 1)
    queue = []
    total = torch.zeros((), device="cuda")
    for _ in range(steps):
        batch = make_batch()
        queue.append((batch, side.start(batch)))
        if len(queue) > 1:
            ready, event = queue.pop(0)
            torch.cuda.current_stream().wait_event(event)
            total += sum(t.sum() for t in tensors_of(ready))
    for ready, event in queue:
        torch.cuda.current_stream().wait_event(event)
        total += sum(t.sum() for t in tensors_of(ready))
    return total.item()


if __name__ == "__main__":
    print(main())
