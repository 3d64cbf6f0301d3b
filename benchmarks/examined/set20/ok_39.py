"""Disparity to point-cloud operators, each on an internal stream."""
import cupy as cp
import cupyx
import numpy as np

H, W = 480, 640


class Entity:
    def __init__(self, tensors, stream, parents=()):
        self.tensors = tensors
        self.stream = stream
        self.parents = list(parents)


class Operator:
    def __init__(self):
        self.internal = cp.cuda.Stream(non_blocking=True)
        self.event_pool = []

    def receive_cuda_stream(self, *entities):
        """Internal stream, ordered after the streams of all inputs."""
        for k, entity in enumerate(entities):
            if entity.stream is self.internal:
                continue
            while len(self.event_pool) <= k:
                self.event_pool.append(cp.cuda.Event(disable_timing=True))
            event = self.event_pool[k]
            event.record(entity.stream)
            self.internal.wait_event(event)
        return self.internal


class CameraOp(Operator):
    def __init__(self, frames):
        super().__init__()
        self.frames = frames
        self.tick = 0

    def compute(self):
        frame = self.frames[self.tick % len(self.frames)]
        self.tick += 1
        with self.internal:
            left = cp.empty((H, W), dtype=cp.uint8)
        left.set(frame, stream=self.internal)
        with self.internal:
            disparity = (left.astype(cp.int16) << 2) + 16
            color = cp.repeat(left[:, :, None], 3, axis=2)
        return Entity({"disparity": disparity, "color": color}, self.internal)


class PointCloudOp(Operator):
    def __init__(self, focal, baseline):
        super().__init__()
        self.scale = focal * baseline
        with self.internal:
            self.v, self.u = cp.mgrid[0:H, 0:W].astype(cp.float32)

    def compute(self, entity):
        stream = self.receive_cuda_stream(entity)
        with stream:
            z = self.scale / entity.tensors["disparity"].astype(cp.float32)
            points = cp.stack((self.u * z, self.v * z, z), axis=-1)
        return Entity({"points": points}, stream, parents=[entity])


class FilterOp(Operator):
    def compute(self, cloud, source):
        stream = self.receive_cuda_stream(cloud, source)
        with stream:
            points = cloud.tensors["points"]
            weight = source.tensors["color"].astype(cp.float32).mean(axis=-1) / 255.0
            centroid = (points * weight[..., None]).reshape(-1, 3).sum(axis=0) / weight.sum()
        return Entity({"centroid": centroid}, stream, parents=[cloud, source])


class SinkOp(Operator):
    def __init__(self, keep=3):
        super().__init__()
        self.keep = keep
        self.pending = []
        self.results = []

    def compute(self, entity):
        stream = self.receive_cuda_stream(entity)
        host = cupyx.empty_pinned((3,), dtype=np.float32)
        entity.tensors["centroid"].get(stream=stream, out=host, blocking=False)
        done = cp.cuda.Event(disable_timing=True)
        done.record(stream)
        self.pending.append((done, host, entity))
        if len(self.pending) > self.keep:
            self._finish()

    def _finish(self):
        done, host, entity = self.pending.pop(0)
        done.synchronize()
        self.results.append(host.copy())

    def stop(self):
        while self.pending:
            self._finish()


def main(ticks=50):
    frames = []
    for k in range(5):
        f = cupyx.empty_pinned((H, W), dtype=np.uint8)
        f[...] = 20 * k + 10
        frames.append(f)
    camera, cloud_op, filter_op, sink = CameraOp(frames), PointCloudOp(500.0, 0.1), FilterOp(), SinkOp()
    for _ in range(ticks):
        source = camera.compute()
        cloud = cloud_op.compute(source)
        sink.compute(filter_op.compute(cloud, source))
    sink.stop()
    return np.stack(sink.results)


if __name__ == "__main__":
    print(main().mean(axis=0))
