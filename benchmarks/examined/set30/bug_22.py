"""Small task graph runtime with one worker thread per device."""
import queue
import threading

import cupy as cp


class Task:
    def __init__(self, name, fn, device, deps=()):
        self.name = name
        self.fn = fn
        self.device = device
        self.deps = list(deps)
        self.result = None
        self.error = None
        self.done = threading.Event()


class DeviceWorker(threading.Thread):
    def __init__(self, device):
        super().__init__(daemon=True)
        self.device = device
        self.tasks = queue.Queue()
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)

    def submit(self, task):
        self.tasks.put(task)

    def _operand(self, dep):
        src = dep.result
        if src.device.id == self.device:
            return src
        dst = cp.empty(src.shape, dtype=src.dtype)
        dst.data.copy_from_device_async(src.data, src.nbytes, self.stream)
        return dst

    def run(self):
        with cp.cuda.Device(self.device), self.stream:
            while True:
                task = self.tasks.get()
                if task is None:
                    return
                for dep in task.deps:
                    dep.done.wait()
                try:
                    operands = [self._operand(dep) for dep in task.deps]
                    task.result = task.fn(*operands)
                except Exception as exc:
                    task.error = exc
                task.done.set()


class Runtime:
    def __init__(self, devices):
        self.workers = {d: DeviceWorker(d) for d in devices}
        for w in self.workers.values():
            w.start()

    def spawn(self, name, fn, device, deps=()):
        task = Task(name, fn, device, deps)
        self.workers[device].submit(task)
        return task

    def gather(self, task):
        task.done.wait()
        if task.error is not None:
            raise task.error
        worker = self.workers[task.device]
        worker.stream.synchronize()
        with cp.cuda.Device(task.device):
            return cp.asnumpy(task.result)

    def shutdown(self):
        for w in self.workers.values():
            w.submit(None)
        for w in self.workers.values():
            w.join()


def panel(n, value):
    def make():
        a = cp.full((n, n), value, dtype=cp.float32)
        a += cp.eye(n, dtype=cp.float32)
        return a @ a
    return make


def main(n=4096):
    rt = Runtime([0, 1])
    left = rt.spawn("left", panel(n, 0.25), 0)
    right = rt.spawn("right", panel(n, 0.5), 1)
    update = rt.spawn("update", lambda r, l: r - l @ r, 1, deps=[right, left])
    out = rt.gather(update)
    rt.shutdown()
    return out


if __name__ == "__main__":
    print(main().trace())
