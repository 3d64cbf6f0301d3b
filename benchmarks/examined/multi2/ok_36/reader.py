import threading

from cuda import cudart

from device import H2D, host_page, new_stream, run


class Reader(threading.Thread):
    """Sends pages to the device as long as slots come back."""

    def __init__(self, belt, pages, size):
        super().__init__(daemon=True)
        self.belt = belt
        self.size = size
        self.pages = [host_page(size, v) for v in pages]
        self.stream = None

    def run(self):
        run(cudart.cudaSetDevice, 0)
        self.stream = new_stream()
        for page in self.pages:
            slot = self.belt.vacant.get()
            slot.hold(slot.empty, self.stream)
            run(cudart.cudaMemcpyAsync, slot.ptr, page.ctypes.data, self.size, H2D, self.stream)
            slot.stamp(slot.full, self.stream)
            self.belt.loaded.put(slot)
        self.belt.loaded.put(None)
