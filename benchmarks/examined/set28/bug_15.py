import struct
from multiprocessing import shared_memory

import torch
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


class CUDAIPCExporter:
    """Shares RGBA frames with another process through a ring of device slots."""

    HEADER = struct.Struct("<QII")

    def __init__(self, name, width, height, slots=3):
        self.width, self.height = width, height
        self.frame_bytes = width * height * 4
        self.slots = [check(cudart.cudaMalloc(self.frame_bytes)) for _ in range(slots)]
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        flags = cudart.cudaEventDisableTiming | cudart.cudaEventInterprocess
        self.events = [check(cudart.cudaEventCreateWithFlags(flags)) for _ in range(slots)]
        self.control = shared_memory.SharedMemory(name=name, create=True, size=4096)
        self._publish_handles()
        self.sequence = 0

    def _publish_handles(self):
        offset = 64
        for slot, event in zip(self.slots, self.events):
            mem = check(cudart.cudaIpcGetMemHandle(slot))
            evt = check(cudart.cudaIpcGetEventHandle(event))
            for raw in (bytes(mem.reserved), bytes(evt.reserved)):
                self.control.buf[offset : offset + len(raw)] = raw
                offset += len(raw)

    def export(self, frame):
        index = self.sequence % len(self.slots)
        check(
            cudart.cudaMemcpyAsync(
                self.slots[index],
                frame.data_ptr(),
                self.frame_bytes,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
                self.stream,
            )
        )
        check(cudart.cudaEventRecord(self.events[index], self.stream))
        self.sequence += 1
        self.HEADER.pack_into(self.control.buf, 0, self.sequence, index, self.frame_bytes)

    def close(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        for slot in self.slots:
            check(cudart.cudaFree(slot))
        self.control.close()
        self.control.unlink()


class FramePacker:
    def __init__(self, width, height):
        self.rgba = torch.empty(height, width, 4, dtype=torch.uint8, device="cuda")
        self.rgba[..., 3] = 255

    def __call__(self, image):
        scaled = image[0].clamp(-1, 1).add(1).mul(127.5).to(torch.uint8)
        self.rgba[..., :3].copy_(scaled.permute(1, 2, 0))
        return self.rgba


@torch.inference_mode()
def stream_loop(pipeline, source, name="sd_out", size=512, frames=None):
    packer = FramePacker(size, size)
    exporter = CUDAIPCExporter(name, size, size)
    try:
        for i, frame in enumerate(source):
            if frames is not None and i >= frames:
                break
            x = torch.from_numpy(frame).to("cuda", torch.float16).permute(2, 0, 1)[None] / 127.5 - 1
            exporter.export(packer(pipeline(x)))
    finally:
        exporter.close()
