"""Multimodal inputs from shared memory: staged through two pinned chunks, then broadcast."""
from multiprocessing import shared_memory

import numpy as np
import torch
import torch.distributed as dist


class ShmTensorRef:
    def __init__(self, name, shape, dtype):
        self.name = name
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def nbytes(self):
        return int(np.prod(self.shape)) * torch.empty(0, dtype=self.dtype).element_size()


class PinnedStage:
    def __init__(self, chunk_bytes, lanes=2):
        self.chunk_bytes = chunk_bytes
        self.buffers = [torch.empty(chunk_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(lanes)]
        self.events = [torch.cuda.Event() for _ in range(lanes)]
        self.stream = torch.cuda.Stream()
        self.lane = 0

    def upload(self, source, dst):
        """source: 1-D uint8 numpy array; dst: 1-D uint8 device tensor."""
        self.stream.wait_stream(torch.cuda.current_stream())
        for start in range(0, source.size, self.chunk_bytes):
            stop = min(start + self.chunk_bytes, source.size)
            buffer, event = self.buffers[self.lane], self.events[self.lane]
            self.lane = (self.lane + 1) % len(self.buffers)
            event.synchronize()
            np.copyto(buffer.numpy()[:stop - start], source[start:stop])
            with torch.cuda.stream(self.stream):
                dst[start:stop].copy_(buffer[:stop - start], non_blocking=True)
                event.record()
        torch.cuda.current_stream().wait_stream(self.stream)


class MultimodalReceiver:
    def __init__(self, group, chunk_bytes=8 << 20, broadcast_threshold=1 << 20):
        self.group = group
        self.rank = dist.get_rank(group)
        self.src = dist.get_global_rank(group, 0)
        self.stage = PinnedStage(chunk_bytes)
        self.broadcast_threshold = broadcast_threshold

    def _read(self, ref, out):
        shm = shared_memory.SharedMemory(name=ref.name)
        view = np.frombuffer(shm.buf, dtype=np.uint8, count=ref.nbytes)
        self.stage.upload(view, out.view(-1).view(torch.uint8))
        del view
        shm.close()
        return shm

    def receive(self, ref):
        out = torch.empty(ref.shape, dtype=ref.dtype, device="cuda")
        if ref.nbytes >= self.broadcast_threshold:
            if self.rank == 0:
                shm = self._read(ref, out)
                shm.unlink()
            dist.broadcast(out, src=self.src, group=self.group)
        else:
            shm = self._read(ref, out)
            dist.barrier(group=self.group)
            if self.rank == 0:
                shm.unlink()
        return out


def vision_forward(weight, pixels):
    return torch.nn.functional.gelu(pixels.flatten(1) @ weight).mean(0)


def publish(index, shape):
    data = torch.randn(shape).half()
    shm = shared_memory.SharedMemory(name=f"mm-{index}", create=True, size=data.numel() * 2)
    np.frombuffer(shm.buf, dtype=np.float16, count=data.numel())[:] = data.numpy().ravel()
    return shm


def main(count=16):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    receiver = MultimodalReceiver(dist.group.WORLD)
    weight = torch.randn(1176, 1280, device="cuda", dtype=torch.half)
    for i in range(count):
        shape = (4096, 1176) if i % 2 else (64, 1176)
        keep = publish(i, shape) if dist.get_rank() == 0 else None
        dist.barrier()
        pixels = receiver.receive(ShmTensorRef(f"mm-{i}", shape, torch.half))
        print(i, vision_forward(weight, pixels).float().norm().item())
        if keep is not None:
            keep.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
