import cupy as cp
import torch
import torch.nn as nn

_letterbox = cp.RawKernel(
    r"""
extern "C" __global__
void letterbox(const unsigned char* src, float* dst, int sh, int sw, int dh, int dw, float scale) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dw || y >= dh) return;
    int sx = (int)(x / scale), sy = (int)(y / scale);
    for (int c = 0; c < 3; ++c) {
        float v = (sx < sw && sy < sh) ? src[(sy * sw + sx) * 3 + c] / 255.0f : 0.5f;
        dst[(c * dh + y) * dw + x] = v;
    }
}
""",
    "letterbox",
)


class YoloPreprocessor:
    def __init__(self, size=640):
        self.size = size

    def __call__(self, frame):
        h, w, _ = frame.shape
        out = torch.empty(1, 3, self.size, self.size, device="cuda")
        scale = min(self.size / h, self.size / w)
        stream = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        with stream:
            _letterbox(
                ((self.size + 15) // 16, (self.size + 15) // 16),
                (16, 16),
                (cp.asarray(frame), cp.asarray(out), cp.int32(h), cp.int32(w),
                 cp.int32(self.size), cp.int32(self.size), cp.float32(scale)),
            )
        return out


class Detector:
    def __init__(self):
        self.pre = YoloPreprocessor()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.SiLU(), nn.Conv2d(32, 8, 3, 2)).cuda().eval()
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    @torch.no_grad()
    def detect(self, image):
        with torch.cuda.stream(self.stream):
            frame = image.pin_memory().to("cuda", non_blocking=True).contiguous()
            return self.net(self.pre(frame)).amax((0, 2, 3)).cpu()


def main():
    det = Detector()
    for _ in range(8):
        print(det.detect(torch.randint(0, 255, (720, 1280, 3), dtype=torch.uint8)).tolist())


if __name__ == "__main__":
    main()
