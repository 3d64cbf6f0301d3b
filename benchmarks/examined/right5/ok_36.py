import threading

import cupy as cp
import torch


class HostNotifier:
    """Sets a threading.Event once the work queued so far on a torch stream is done."""

    def __init__(self, stream: torch.cuda.Stream):
        self.stream = cp.cuda.ExternalStream(stream.cuda_stream)
        self._live = set()

    def notify(self) -> threading.Event:
        flag = threading.Event()
        self._live.add(flag)
        self.stream.launch_host_func(self._fire, flag)
        return flag

    def _fire(self, flag):
        flag.set()

    def forget(self, flag):
        self._live.discard(flag)


class Recorder(threading.Thread):
    def __init__(self, frames: torch.Tensor):
        super().__init__()
        self.frames = frames
        self.ready, self.taken = [], threading.Condition()
        self.means = []

    def post(self, item):
        with self.taken:
            self.ready.append(item)
            self.taken.notify_all()

    def run(self):
        while True:
            with self.taken:
                self.taken.wait_for(lambda: self.ready)
                item = self.ready.pop(0)
            if item is None:
                return
            slot, flag, returned = item
            flag.wait()
            self.means.append(float(self.frames[slot].mean()))
            returned.set()


def main(steps=64, slots=2):
    stream = torch.cuda.Stream()
    notifier = HostNotifier(stream)
    host = torch.empty(slots, 512, 512, pin_memory=True)
    recorder = Recorder(host)
    recorder.start()
    returned = [threading.Event() for _ in range(slots)]
    for r in returned:
        r.set()
    with torch.cuda.stream(stream):
        state = torch.rand(512, 512, device="cuda")
        for i in range(steps):
            state = torch.sin(state @ state.t() / 512)
            slot = i % slots
            returned[slot].wait()
            returned[slot].clear()
            host[slot].copy_(state, non_blocking=True)
            recorder.post((slot, notifier.notify(), returned[slot]))
    recorder.post(None)
    recorder.join()
    print(len(recorder.means), recorder.means[-1])


if __name__ == "__main__":
    main()
