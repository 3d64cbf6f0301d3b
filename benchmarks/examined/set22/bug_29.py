"""Frame reader: decoder surfaces are mapped, converted to RGB on the user's stream, unmapped."""
import cupy as cp

_decode = cp.ElementwiseKernel(
    "int32 pic, int32 pitch", "uint8 surf",
    "surf = (unsigned char)((i / pitch * 7 + i * 3 + pic * 13) & 0xff)", "decode_picture")

_to_rgb = cp.ElementwiseKernel(
    "raw uint8 luma, raw uint8 chroma, float32 gain", "float32 rgb",
    """
    float y = luma[i / 3];
    float c = chroma[(i / 3) / 2];
    rgb = gain * (y + 1.4f * (c - 128.0f));
    """, "nv12_to_rgb")


class NvDecoder:
    """A few surfaces that the decode engine fills on its own stream."""

    def __init__(self, height, width, n_surfaces=2):
        self.height, self.width = height, width
        self.stream = cp.cuda.Stream(non_blocking=True)
        size = height * width * 3 // 2
        self.surfaces = [cp.empty(size, cp.uint8) for _ in range(n_surfaces)]
        cp.cuda.get_current_stream().synchronize()
        self.free = list(range(n_surfaces))
        self.decoded = cp.cuda.Event(disable_timing=True)

    def map_frame(self, pic):
        index = self.free.pop(0)
        with self.stream:
            _decode(pic, self.width, self.surfaces[index])
        self.decoded.record(self.stream)
        self.decoded.synchronize()
        return index

    def unmap_frame(self, index):
        self.free.append(index)


class VideoReader:
    def __init__(self, height, width):
        self.dec = NvDecoder(height, width)

    def convert_frame(self, index, out, stream):
        dec = self.dec
        n = dec.height * dec.width
        surf = dec.surfaces[index]
        with stream:
            _to_rgb(surf[:n], surf[n:], cp.float32(1.0 / 255), out)

    def receive_frames(self, first, count, stream):
        dec = self.dec
        with stream:
            seq = cp.empty((count, dec.height, dec.width, 3), cp.float32)
        for k in range(count):
            index = dec.map_frame(first + k)
            self.convert_frame(index, seq[k], stream)
            dec.unmap_frame(index)
        return seq


def main():
    reader = VideoReader(1080, 1920)
    stream = cp.cuda.Stream(non_blocking=True)
    for batch in range(4):
        seq = reader.receive_frames(batch * 16, 16, stream)
        with stream:
            mean = seq.mean()
        print(float(mean.get(stream=stream)))


if __name__ == "__main__":
    main()
