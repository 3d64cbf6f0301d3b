"""CuPy producer and torch consumer exchanging a buffer by DLPack."""
import cupy as cp
import torch


class NoiseSource:
    def __init__(self, shape):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.array = cp.empty(shape, dtype=cp.float32)
        self.step = 0
        self.released = None

    def produce(self) -> torch.Tensor:
        with self.stream:
            if self.released is not None:
                self.stream.wait_event(self.released)
            self.array.fill(self.step)
            cp.sin(self.array, out=self.array)
            self.step += 1
            return torch.from_dlpack(self.array)

    def release(self):
        consumer = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        self.released = consumer.record()


class Consumer:
    def __init__(self, source: NoiseSource):
        self.source = source
        self.total = torch.zeros((), device="cuda")

    def pull(self):
        noise = self.source.produce()
        try:
            self.total += noise.square().mean()
        finally:
            self.source.release()

    def value(self) -> float:
        return self.total.item()


def main():
    consumer = Consumer(NoiseSource((512, 512)))
    for _ in range(20):
        consumer.pull()
    print(consumer.value())


if __name__ == "__main__":
    main()
