"""Overlay renderer: torch composes frames, a pitched surface feeds the hardware encoder."""
from dataclasses import dataclass
from typing import Callable, List, Optional

import torch
from cuda.bindings import runtime as cudart


def check(ret):
    err, *vals = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return vals[0] if len(vals) == 1 else vals


@dataclass
class VideoFormat:
    width: int = 1920
    height: int = 1080
    fps: int = 30

    @property
    def luma_rows(self) -> int:
        return self.height

    @property
    def rows(self) -> int:
        return self.height * 3 // 2


class PitchedSurface:
    def __init__(self, fmt: VideoFormat):
        self.fmt = fmt
        self.ptr, self.pitch = check(cudart.cudaMallocPitch(fmt.width, fmt.rows))

    def free(self) -> None:
        check(cudart.cudaFree(self.ptr))


class Bitstream:
    def __init__(self, path: str):
        self.f = open(path, "wb")
        self.packets = 0

    def append(self, pkt: bytes) -> None:
        self.f.write(pkt)
        self.packets += 1

    def close(self) -> None:
        self.f.close()


class SurfaceEncoder:
    """Thin layer above an encoder session working on one pitched NV12 surface."""

    def __init__(self, fmt: VideoFormat, session: Callable[[int, int], bytes], sink: Bitstream):
        self.fmt = fmt
        self.session = session
        self.sink = sink
        self.surface = PitchedSurface(fmt)
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def _import(self, nv12: torch.Tensor) -> None:
        check(
            cudart.cudaMemcpy2DAsync(
                self.surface.ptr,
                self.surface.pitch,
                nv12.data_ptr(),
                nv12.stride(0),
                self.fmt.width,
                self.fmt.rows,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
                self.stream,
            )
        )

    def encode(self, nv12: torch.Tensor) -> None:
        self._import(nv12)
        check(cudart.cudaStreamSynchronize(self.stream))
        self.sink.append(self.session(self.surface.ptr, self.surface.pitch))

    def close(self) -> None:
        check(cudart.cudaStreamSynchronize(self.stream))
        self.surface.free()
        check(cudart.cudaStreamDestroy(self.stream))
        self.sink.close()


class Compositor:
    def __init__(self, fmt: VideoFormat, device: torch.device):
        self.fmt = fmt
        self.device = device
        self.logo = torch.rand(3, 128, 256, device=device)
        self.alpha = torch.linspace(0, 0.8, 256, device=device).expand(1, 128, 256)
        self.to_yuv = torch.tensor(
            [[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.100]], device=device
        )
        self.nv12 = torch.empty(fmt.rows, fmt.width, dtype=torch.uint8, device=device)

    def blend(self, rgb: torch.Tensor, x: int, y: int) -> torch.Tensor:
        roi = rgb[:, y:y + 128, x:x + 256]
        roi.mul_(1 - self.alpha).add_(self.alpha * self.logo)
        return rgb

    def pack(self, rgb: torch.Tensor) -> torch.Tensor:
        yuv = torch.einsum("ij,jhw->ihw", self.to_yuv, rgb)
        h = self.fmt.height
        self.nv12[:h] = yuv[0].mul(219).add(16).clamp(0, 255).to(torch.uint8)
        uv = torch.nn.functional.avg_pool2d(yuv[1:][None], 2)[0]
        uv = uv.mul(224).add(128).clamp(0, 255).to(torch.uint8)
        self.nv12[h:] = uv.permute(1, 2, 0).reshape(h // 2, self.fmt.width)
        return self.nv12


class Renderer:
    def __init__(self, fmt: VideoFormat, encoder: SurfaceEncoder, device: Optional[torch.device] = None):
        self.fmt = fmt
        self.device = device or torch.device("cuda")
        self.comp = Compositor(fmt, self.device)
        self.encoder = encoder

    def render(self, t: int) -> torch.Tensor:
        g = torch.linspace(0, 1, self.fmt.width, device=self.device)
        rgb = g.roll(t * 8).expand(3, self.fmt.height, self.fmt.width).clone()
        return self.comp.blend(rgb, x=(t * 5) % 1024, y=64)

    @torch.inference_mode()
    def run(self, n: int) -> int:
        for t in range(n):
            self.encoder.encode(self.comp.pack(self.render(t)))
        self.encoder.close()
        return self.encoder.sink.packets


def raw_session(fmt: VideoFormat) -> Callable[[int, int], bytes]:
    host = bytearray(fmt.rows * fmt.width)
    view = (memoryview(host),)

    def encode(ptr: int, pitch: int) -> bytes:
        import ctypes

        dst = ctypes.addressof(ctypes.c_char.from_buffer(host))
        check(
            cudart.cudaMemcpy2D(
                dst, fmt.width, ptr, pitch, fmt.width, fmt.rows, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
            )
        )
        return bytes(view[0])

    return encode


def main():
    fmt = VideoFormat()
    enc = SurfaceEncoder(fmt, raw_session(fmt), Bitstream("/tmp/out.yuv"))
    print(Renderer(fmt, enc).run(120))


if __name__ == "__main__":
    main()
