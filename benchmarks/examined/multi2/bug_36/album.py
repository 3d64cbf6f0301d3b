import numpy as np

import rt


class Album:
    """Keeps copies of the frames of a camera."""

    def __init__(self, camera, pages):
        self.camera = camera
        self.stream = rt.stream()
        self.taken = rt.Gate()
        self.pages = [rt.call("cudaMalloc", camera.size) for _ in range(pages)]
        self._next = 0

    def expect(self):
        self.camera.fresh.passing(self.stream)
        page = self.pages[self._next % len(self.pages)]
        self._next += 1
        return page

    def paste(self, page):
        cam = self.camera
        rt.call("cudaMemcpyAsync", page, cam.frame, cam.size, rt.DEVICE_TO_DEVICE, self.stream)
        self.taken.open(self.stream)

    def show(self):
        out = np.empty(self.camera.size, dtype=np.uint8)
        rt.call("cudaStreamSynchronize", self.stream)
        for page in self.pages:
            rt.call("cudaMemcpy", out.ctypes.data, page, out.nbytes, rt.DEVICE_TO_HOST)
            yield int(out.min()), int(out.max())
