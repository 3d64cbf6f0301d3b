"""GOP decoding: frame copies are event-backed, one synchronization per request."""
import cupy as cp

_decode = cp.ElementwiseKernel(
    "int32 pic", "uint8 surf",
    "surf = (unsigned char)((i * 3 + pic * 13) & 0xff)", "decode_picture")


class Surface:
    def __init__(self, size):
        self.mem = cp.empty(size, cp.uint8)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.copied = None


class GopDecoder:
    def __init__(self, height, width, n_surfaces=3):
        self.shape = (height * 3 // 2, width)
        self.decode_stream = cp.cuda.Stream(non_blocking=True)
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        size = height * 3 // 2 * width
        self.surfaces = [Surface(size) for _ in range(n_surfaces)]
        cp.cuda.get_current_stream().synchronize()
        self.next = 0

    def _decode_into(self, surface, pic):
        if surface.copied is not None:
            self.decode_stream.wait_event(surface.copied)
            surface.copied = None
        with self.decode_stream:
            _decode(pic, surface.mem)
        surface.ready.record(self.decode_stream)

    def _copy_out(self, surface):
        self.copy_stream.wait_event(surface.ready)
        with self.copy_stream:
            frame = cp.empty(self.shape, cp.uint8)
            frame[...] = surface.mem.reshape(self.shape)
        surface.copied = self.copy_stream.record()
        return frame

    def decode(self, wanted):
        wanted = set(wanted)
        frames = {}
        for pic in range(max(wanted) + 1):
            surface = self.surfaces[self.next]
            self.next = (self.next + 1) % len(self.surfaces)
            self._decode_into(surface, pic)
            if pic in wanted:
                frames[pic] = self._copy_out(surface)
        self.copy_stream.synchronize()
        return frames


def main():
    dec = GopDecoder(1080, 1920)
    for first in (0, 8, 16):
        frames = dec.decode([first, first + 3, first + 7])
        for pic, frame in frames.items():
            assert int(frame[0, 0]) == (pic * 13) & 0xFF
        del frame
        frames.clear()
        cp.cuda.get_current_stream().synchronize()


if __name__ == "__main__":
    main()
