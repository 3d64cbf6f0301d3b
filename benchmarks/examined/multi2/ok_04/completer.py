import queue
import threading
from concurrent.futures import Future


class Completer(threading.Thread):
    """Turns device events into finished futures, in the order they were handed in."""

    def __init__(self):
        super().__init__(name="completer", daemon=True)
        self._jobs = queue.Queue()

    def watch(self, event, payload, keep=()):
        fut = Future()
        self._jobs.put((event, payload, keep, fut))
        return fut

    def run(self):
        while True:
            job = self._jobs.get()
            if job is None:
                break
            event, payload, keep, fut = job
            try:
                event.synchronize()
            except Exception as exc:
                fut.set_exception(exc)
                continue
            del keep
            fut.set_result(payload)

    def close(self):
        self._jobs.put(None)
        self.join()
