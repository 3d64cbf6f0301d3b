"""Host parse + device decode of coefficient blocks, double buffered."""
import numpy as np
import cupy as cp
import cupyx

_idct = cp.ElementwiseKernel(
    'int16 q, float32 s', 'float32 y', 'y = (float)q * s', 'dequant')


class PinnedBuffer:
    def __init__(self, nelem):
        self.host = cupyx.empty_pinned((nelem,), dtype=np.int16)
        self.transferred = cp.cuda.Event(disable_timing=True)


class DecoderThreadState:
    """What one decoding thread owns: two pinned buffers and a stream."""

    def __init__(self, nelem):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.buffers = [PinnedBuffer(nelem) for _ in range(2)]
        self.device = cp.empty((nelem,), dtype=cp.int16)
        self.curr = 0

    def next_buffer(self):
        buf = self.buffers[self.curr]
        self.curr = (self.curr + 1) % len(self.buffers)
        return buf


class ImageDecoder:
    def __init__(self, nelem, scale=0.125):
        cp.cuda.Device().synchronize()
        self.nelem = nelem
        self.scale = np.float32(scale)
        self.state = DecoderThreadState(nelem)
        cp.cuda.Device().synchronize()

    def parse(self, bitstream, out):
        raw = np.frombuffer(bitstream, dtype=np.int16, count=self.nelem)
        np.copyto(out, raw)

    def decode_sample(self, bitstream, output):
        st = self.state
        buf = st.next_buffer()
        buf.transferred.synchronize()
        self.parse(bitstream, buf.host)
        st.device.set(buf.host, stream=st.stream)
        buf.transferred.record(st.stream)
        with st.stream:
            _idct(st.device, self.scale, output)

    def decode_batch(self, bitstreams):
        with self.state.stream:
            outputs = cp.empty((len(bitstreams), self.nelem), dtype=cp.float32)
        for i, bs in enumerate(bitstreams):
            self.decode_sample(bs, outputs[i])
        self.state.stream.synchronize()
        return outputs


if __name__ == "__main__":
    n = 1 << 20
    dec = ImageDecoder(n)
    batch = [np.random.randint(-128, 128, n).astype(np.int16).tobytes()
             for _ in range(8)]
    for epoch in range(3):
        out = dec.decode_batch(batch)
        print(epoch, float(out.mean()))
