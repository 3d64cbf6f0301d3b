"""Sequential executor with fences between execution providers."""
import cupy as cp
import cupyx
import numpy as np

CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"


class CUDAFence:
    def __init__(self, provider):
        self.provider = provider
        self.write_event = cp.cuda.Event(disable_timing=True)

    def after_used_as_output(self, queue):
        self.write_event.record(queue)

    def before_using_as_input(self, provider, queue):
        if provider == CUDA:
            queue.wait_event(self.write_event)
        else:
            self.write_event.synchronize()


class Value:
    def __init__(self, data, fence):
        self.data = data
        self.fence = fence


class ProviderStreams:
    def __init__(self):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.copy_out = cp.cuda.Stream(non_blocking=True)


class Node:
    provider = CUDA
    queue_name = "compute"

    def __init__(self, inputs, output):
        self.inputs = inputs
        self.output = output


class MemcpyToHost(Node):
    queue_name = "copy_out"

    def compute(self, inputs, queue):
        src = inputs[0]
        host = cupyx.empty_pinned(src.shape, dtype=src.dtype)
        src.get(stream=queue, out=host, blocking=False)
        return host


class EstimateScale(Node):
    def compute(self, inputs, queue):
        image = inputs[0]
        peak = cp.abs(image).max(axis=(1, 2))
        return 1.0 + peak / (1.0 + peak.sum())


class Resize(Node):
    """Takes the image on the device and the scale factors in CPU memory."""

    def compute(self, inputs, queue):
        image, scales = inputs
        factor = float(np.max(scales))
        rows = cp.arange(int(image.shape[1] * factor)) % image.shape[1]
        return image[:, rows, :]


class SequentialExecutor:
    def __init__(self, nodes):
        self.nodes = nodes
        self.streams = ProviderStreams()

    def execute(self, feeds):
        values = {}
        for name, array in feeds.items():
            fence = CUDAFence(CUDA)
            fence.after_used_as_output(self.streams.compute)
            values[name] = Value(array, fence)
        for node in self.nodes:
            queue = getattr(self.streams, node.queue_name)
            inputs = []
            for name in node.inputs:
                value = values[name]
                value.fence.before_using_as_input(node.provider, queue)
                inputs.append(value.data)
            with queue:
                result = node.compute(inputs, queue)
            fence = CUDAFence(node.provider)
            fence.after_used_as_output(queue)
            values[node.output] = Value(result, fence)
        self.streams.compute.synchronize()
        return values


def main():
    executor = SequentialExecutor([
        EstimateScale(["image"], "peak"),
        MemcpyToHost(["peak"], "scales"),
        Resize(["image", "scales"], "resized"),
    ])
    image = cp.random.random((3, 512, 512), dtype=cp.float32)
    cp.cuda.Stream.null.synchronize()
    out = executor.execute({"image": image})["resized"].data
    return float(out.sum())


if __name__ == "__main__":
    print(main())
