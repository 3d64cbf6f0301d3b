from concurrent.futures import ThreadPoolExecutor

import torch


class Crew:
    """Runs modules on helper threads, so that their launch overhead overlaps."""

    def __init__(self, size=2):
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="crew")

    @staticmethod
    def _call(module, args):
        with torch.inference_mode():
            return module(*args)

    def start(self, module, *args):
        return self._pool.submit(self._call, module, args)

    def gather(self, futures):
        return [f.result() for f in futures]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._pool.shutdown(wait=True)
        return False


class SerialCrew:
    """Same interface without threads, for debugging."""

    class _Done:
        def __init__(self, value):
            self._value = value

        def result(self):
            return self._value

    def start(self, module, *args):
        with torch.inference_mode():
            return self._Done(module(*args))

    def gather(self, futures):
        return [f.result() for f in futures]
