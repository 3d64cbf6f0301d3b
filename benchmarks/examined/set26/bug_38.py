"""Streaming video decoder that gathers frames into fixed-size batches."""
import numpy as np
import cupy as cp

_decode_picture = cp.RawKernel(r'''
extern "C" __global__ void decode_picture(unsigned char* nv12, int n, int pts) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) nv12[i] = (unsigned char)(pts & 127);
}''', 'decode_picture')

_nv12_luma = cp.ElementwiseKernel(
    'uint8 y', 'float32 o', 'o = ((float)y - 16.f) / 219.f', 'nv12_luma')


class FrameBuffer:
    """Preallocated storage for `batch_size` NV12 frames."""

    def __init__(self, batch_size, height, width):
        self.storage = cp.empty((batch_size, height * 3 // 2, width), dtype=cp.uint8)
        self.batch_size = batch_size
        self.filled = 0
        self.event = cp.cuda.Event(disable_timing=True)

    def next_frame(self):
        frame = self.storage[self.filled]
        self.filled += 1
        return frame

    @property
    def ready(self):
        return self.filled == self.batch_size

    def pop_batch(self, stream):
        self.event.record(stream)
        self.filled = 0
        return self.storage, self.event


class NvDecDecoder:
    def __init__(self, height, width, batch_size=16):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.height = height
        self.buffer = FrameBuffer(batch_size, height, width)

    def handle_display_picture(self, pts):
        frame = self.buffer.next_frame()
        grid = ((frame.size + 255) // 256,)
        _decode_picture(grid, (256,), (frame, np.int32(frame.size), np.int32(pts)),
                        stream=self.stream)

    def streaming_decode(self, packets):
        for pts in packets:
            self.handle_display_picture(pts)
            if self.buffer.ready:
                yield self.buffer.pop_batch(self.stream)


class Preprocessor:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def __call__(self, batch, event, height):
        self.stream.wait_event(event)
        with self.stream:
            luma = _nv12_luma(batch[:, :height])
            return luma.mean(axis=(1, 2))


def main(height=1080, width=1920, nframes=256):
    decoder = NvDecDecoder(height, width)
    preprocess = Preprocessor()
    means = []
    for batch, event in decoder.streaming_decode(range(nframes)):
        means.append(preprocess(batch, event, height))
    preprocess.stream.synchronize()
    result = np.concatenate([m.get() for m in means])
    expected = ((np.arange(nframes) & 127) - 16.0) / 219.0
    assert np.allclose(result, expected, atol=1e-4)


if __name__ == "__main__":
    main()
