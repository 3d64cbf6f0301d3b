import numpy as np
import pycuda.driver as drv


class Thumbnailer:
    def __init__(self, pyramid, width, height):
        self.pyramid = pyramid
        self.width, self.height = width, height
        self.stream = drv.Stream()
        self.done = drv.Event(drv.event_flags.DISABLE_TIMING)
        down = 2 ** pyramid.levels
        self.host_in = drv.pagelocked_empty((height, width), np.float32)
        self.host_out = drv.pagelocked_empty((height // down, width // down), np.float32)
        self.dev_in = drv.mem_alloc(self.host_in.nbytes)
        self.dev_out = drv.mem_alloc(self.host_out.nbytes)
        self.busy = False

    def take(self):
        """The finished thumbnail, or None when nothing was started."""
        if not self.busy:
            return None
        self.done.synchronize()
        self.busy = False
        return self.host_out.copy()

    def start(self, picture):
        assert not self.busy
        self.host_in[:] = picture
        drv.memcpy_htod_async(self.dev_in, self.host_in, self.stream)
        self.pyramid.reduce(self.dev_in, self.width, self.height, self.dev_out, self.stream)
        drv.memcpy_dtoh_async(self.host_out, self.dev_out, self.stream)
        self.done.record(self.stream)
        self.busy = True
