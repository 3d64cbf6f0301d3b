"""Radar range profiles: stream callbacks notify the plot thread about new profiles."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

BINS = 1 << 16


class ProfilePublisher:
    def __init__(self, on_profile, depth=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.idle = queue.Queue()
        self.ready = queue.Queue()
        for _ in range(depth):
            self.idle.put(cupyx.empty_pinned(BINS, np.float32))
        self.on_profile = on_profile
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _notify(self, host):
        self.ready.put(host)

    def _loop(self):
        while True:
            host = self.ready.get()
            if host is None:
                break
            self.on_profile(host)
            self.idle.put(host)

    def publish(self, profile):
        host = self.idle.get()
        self.stream.launch_host_func(self._notify, host)
        profile.get(stream=self.stream, out=host, blocking=False)

    def stop(self):
        self.stream.synchronize()
        self.ready.put(None)
        self.thread.join()


def main(pulses=500):
    peaks = []
    pub = ProfilePublisher(lambda host: peaks.append(int(host.argmax())))
    with pub.stream:
        grid = cp.linspace(-40.0, 40.0, BINS, dtype=cp.float32)
        for k in range(pulses):
            profile = cp.exp(-(grid - np.float32(0.1 * (k % 300))) ** 2)
            pub.publish(profile)
    pub.stop()
    print(peaks[-10:])


if __name__ == "__main__":
    main()
