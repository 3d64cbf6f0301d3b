import torch
import triton
import triton.language as tl


@triton.jit
def _yuv_to_rgb_kernel(y_ptr, u_ptr, v_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    y = tl.load(y_ptr + offs, mask=mask).to(tl.float32) * 1.164
    u = tl.load(u_ptr + offs, mask=mask).to(tl.float32)
    v = tl.load(v_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, y + 1.793 * v, mask=mask)
    tl.store(out_ptr + n + offs, y - 0.213 * u - 0.533 * v, mask=mask)
    tl.store(out_ptr + 2 * n + offs, y + 2.112 * u, mask=mask)


class CudaDeviceInterface:
    """Decodes on its own stream and converts on the stream of the caller."""

    def __init__(self, device, height, width):
        self.device = torch.device(device)
        self.height = height
        self.width = width
        self.nvdec_stream = torch.cuda.Stream(self.device)

    def decode_packet(self, packet, quant):
        with torch.cuda.stream(self.nvdec_stream):
            coeffs = packet.to(self.device, non_blocking=True)
            planes = coeffs.view(3, self.height, self.width).to(torch.int16)
            planes.mul_(quant)
            planes.clamp_(-512, 511)
        return planes

    def convert_frame_to_rgb(self, planes):
        stream = torch.cuda.current_stream(self.device)
        planes.record_stream(stream)
        n = self.height * self.width
        rgb = torch.empty((3, self.height, self.width), device=self.device)
        grid = (triton.cdiv(n, 1024),)
        _yuv_to_rgb_kernel[grid](planes[0], planes[1], planes[2], rgb, n, BLOCK=1024)
        return rgb


class SingleStreamDecoder:
    def __init__(self, demuxer, device, height, width):
        self.demuxer = demuxer
        self.interface = CudaDeviceInterface(device, height, width)

    def get_frame_at(self, index):
        packet, quant = self.demuxer.packet_at(index)
        planes = self.interface.decode_packet(packet, quant)
        return self.interface.convert_frame_to_rgb(planes)

    def get_frames_in_range(self, start, stop):
        return torch.stack([self.get_frame_at(i) for i in range(start, stop)])
