"""Sort service that reports completion through host functions."""
import queue
from typing import Dict, Iterable, Iterator, List, Tuple

import cupy
import numpy


class Job:
    def __init__(self, capacity: int):
        memory = cupy.cuda.alloc_pinned_memory(capacity * 4)
        self.host = numpy.frombuffer(memory, numpy.float32, capacity)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        with self.stream:
            self.dev = cupy.empty(capacity, cupy.float32)
        self.length = 0
        self.key = -1


class SortService:
    def __init__(self, capacity: int, jobs: int = 4):
        self.capacity = capacity
        self.idle: List[Job] = [Job(capacity) for _ in range(jobs)]
        self.done: "queue.SimpleQueue[Job]" = queue.SimpleQueue()
        self.running: Dict[int, Job] = {}

    def _notify(self, job: Job) -> None:
        self.done.put(job)

    def submit(self, key: int, values: numpy.ndarray) -> bool:
        if key in self.running:
            raise KeyError(f"job {key} is running")
        if len(values) > self.capacity:
            raise ValueError("too long")
        if not self.idle:
            return False
        job = self.idle.pop()
        n = len(values)
        job.key, job.length = key, n
        job.host[:n] = values
        self.running[key] = job
        try:
            with job.stream:
                part = job.dev[:n]
                part.set(job.host[:n], stream=job.stream)
                part.sort()
                part.get(stream=job.stream, out=job.host[:n], blocking=False)
                job.stream.launch_host_func(self._notify, job)
        except BaseException:
            del self.running[key]
            job.stream.synchronize()
            self.idle.append(job)
            raise
        return True

    def wait_any(self) -> Tuple[int, numpy.ndarray]:
        if not self.running:
            raise LookupError("nothing is running")
        job = self.done.get()
        del self.running[job.key]
        result = job.host[: job.length].copy()
        self.idle.append(job)
        return job.key, result

    def drain(self) -> Iterator[Tuple[int, numpy.ndarray]]:
        while self.running:
            yield self.wait_any()


def sort_all(arrays: Iterable[numpy.ndarray], capacity: int) -> Dict[int, numpy.ndarray]:
    service = SortService(capacity)
    results: Dict[int, numpy.ndarray] = {}
    for key, values in enumerate(arrays):
        while not service.submit(key, values):
            finished, ordered = service.wait_any()
            results[finished] = ordered
    results.update(service.drain())
    return results
