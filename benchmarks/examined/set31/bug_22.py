"""Image normaliser and classifier front end on PyCUDA."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SRC = r"""
__global__ void normalise(const unsigned char *src, float *dst, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = (src[i] - 127.5f) / 127.5f;
}
"""
NON_BLOCKING = 1


class FrontEnd:
    def __init__(self, height, width):
        self.n = height * width * 3
        self.kernel = SourceModule(SRC).get_function("normalise")
        self.copy_stream = drv.Stream(NON_BLOCKING)
        self.exec_stream = drv.Stream(NON_BLOCKING)
        self.host_in = drv.pagelocked_empty(self.n, np.uint8)
        self.host_out = drv.pagelocked_empty(self.n, np.float32)
        self.dev_in = drv.mem_alloc(self.host_in.nbytes)
        self.dev_out = drv.mem_alloc(self.host_out.nbytes)

    def upload(self, image):
        np.copyto(self.host_in, image.ravel())
        drv.memcpy_htod_async(self.dev_in, self.host_in, self.copy_stream)

    def execute(self):
        grid = ((self.n + 255) // 256, 1)
        self.kernel(self.dev_in, self.dev_out, np.int32(self.n),
                    block=(256, 1, 1), grid=grid, stream=self.exec_stream)

    def download(self):
        drv.memcpy_dtoh_async(self.host_out, self.dev_out, self.exec_stream)
        self.exec_stream.synchronize()
        return self.host_out.copy()

    def infer(self, image):
        self.upload(image)
        self.execute()
        result = self.download()
        self.copy_stream.synchronize()
        return result


def main():
    front = FrontEnd(1080, 1920)
    rng = np.random.default_rng(0)
    for _ in range(30):
        frame = rng.integers(0, 256, (1080, 1920, 3), dtype=np.uint8)
        out = front.infer(frame)
        print(float(out.mean()))


if __name__ == "__main__":
    main()
