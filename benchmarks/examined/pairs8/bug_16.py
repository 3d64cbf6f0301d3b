import cupy as cp
import torch

_nv12 = cp.RawKernel(
    r"""
extern "C" __global__
void nv12_to_rgb(const unsigned char* y, const unsigned char* uv, float* rgb, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= w || r >= h) return;
    float l = y[r * w + c] - 16.0f;
    int o = (r / 2) * w + (c / 2) * 2;
    float u = uv[o] - 128.0f, v = uv[o + 1] - 128.0f;
    rgb[r * w + c] = 1.164f * l + 1.596f * v;
    rgb[h * w + r * w + c] = 1.164f * l - 0.813f * v - 0.391f * u;
    rgb[2 * h * w + r * w + c] = 1.164f * l + 2.018f * u;
}
""",
    "nv12_to_rgb",
)


class ColorConverter:
    def __init__(self, height, width):
        self.h, self.w = height, width
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rgb = torch.empty(3, height, width, device="cuda")

    def convert(self, nv12):
        y = nv12[: self.h]
        uv = nv12[self.h :]
        grid = ((self.w + 31) // 32, (self.h + 7) // 8)
        with self.stream:
            _nv12(grid, (32, 8), (cp.asarray(y), cp.asarray(uv), cp.asarray(self.rgb), cp.int32(self.h), cp.int32(self.w)))
        return self.rgb


class ThumbnailService:
    def __init__(self, height=1080, width=1920):
        self.conv = ColorConverter(height, width)
        self.h, self.w = height, width

    def thumbnail(self, raw):
        nv12 = raw.cuda(non_blocking=True).view(self.h * 3 // 2, self.w)
        rgb = self.conv.convert(nv12)
        small = torch.nn.functional.interpolate(rgb[None], size=(90, 160), mode="area")
        return small.clamp(0, 255).byte().cpu()


def main():
    service = ThumbnailService()
    for i in range(24):
        raw = torch.randint(0, 255, (1080 * 3 // 2 * 1920,), dtype=torch.uint8).pin_memory()
        thumb = service.thumbnail(raw)
        print(i, tuple(thumb.shape))


if __name__ == "__main__":
    main()
