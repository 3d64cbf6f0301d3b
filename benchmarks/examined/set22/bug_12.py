"""Raw NVENC writer: torch frames are copied into encoder-owned NV12 surfaces before submission."""
import numpy as np
import torch
from cuda.bindings import runtime as cudart


def check(result):
    err = result[0]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorName(err)[1])
    return result[1] if len(result) == 2 else result[1:]


class SurfacePool:
    def __init__(self, width, height, count):
        self.width, self.height = width, height
        self.surfaces = [check(cudart.cudaMallocPitch(width, height * 3 // 2)) for _ in range(count)]
        self.index = 0

    def next(self):
        surface = self.surfaces[self.index]
        self.index = (self.index + 1) % len(self.surfaces)
        return surface


class VideoEncoder:
    def __init__(self, session, width, height, path):
        self.session = session
        self.width, self.height = width, height
        self.pool = SurfacePool(width, height, session.num_input_buffers)
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.file = open(path, "wb")

    def rgb_to_nv12(self, rgb):
        r, g, b = rgb.float().unbind(0)
        y = 16 + 0.257 * r + 0.504 * g + 0.098 * b
        u = 128 - 0.148 * r - 0.291 * g + 0.439 * b
        v = 128 + 0.439 * r - 0.368 * g - 0.071 * b
        u = u.view(self.height // 2, 2, self.width // 2, 2).mean((1, 3))
        v = v.view(self.height // 2, 2, self.width // 2, 2).mean((1, 3))
        uv = torch.stack([u, v], dim=-1).reshape(self.height // 2, self.width)
        return torch.cat([y, uv], 0).clamp(0, 255).to(torch.uint8).contiguous()

    def write(self, rgb):
        nv12 = self.rgb_to_nv12(rgb)
        ptr, pitch = self.pool.next()
        check(cudart.cudaMemcpy2DAsync(
            ptr, pitch, nv12.data_ptr(), self.width, self.width, self.height * 3 // 2,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, self.stream,
        ))
        check(cudart.cudaStreamSynchronize(self.stream))
        packet = self.session.encode(ptr, pitch)
        if packet:
            self.file.write(np.asarray(packet, dtype=np.uint8).tobytes())

    def close(self):
        for packet in self.session.flush():
            self.file.write(np.asarray(packet, dtype=np.uint8).tobytes())
        self.file.close()


@torch.inference_mode()
def transcode(frames, model, session, width, height, path):
    encoder = VideoEncoder(session, width, height, path)
    for frame in frames:
        x = frame.cuda().float().div_(255)
        y = model(x[None])[0].mul_(255)
        encoder.write(y)
    encoder.close()
