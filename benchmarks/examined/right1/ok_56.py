"""Build a branching graph with cuda.core and launch it on a stream."""
import numpy as np
from cuda.core.experimental import (
    Device, GraphBuilder, LaunchConfig, LegacyPinnedMemoryResource, Program,
    ProgramOptions, launch)

CODE = r"""
extern "C" __global__ void bump(int* a) { a[0] += 1; }
extern "C" __global__ void twice(const int* a, int* b) { b[0] = 2 * a[0]; }
extern "C" __global__ void square(const int* a, int* c) { c[0] = a[0] * a[0]; }
extern "C" __global__ void total(int* a, const int* b, const int* c) { a[1] = b[0] + c[0]; }
"""
NAMES = ("bump", "twice", "square", "total")


class Counter:
    def __init__(self):
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        arch = "".join(str(v) for v in self.device.compute_capability)
        prog = Program(CODE, "c++", options=ProgramOptions(arch=f"sm_{arch}"))
        module = prog.compile("cubin", name_expressions=NAMES)
        self.kernels = {name: module.get_kernel(name) for name in NAMES}
        mr = LegacyPinnedMemoryResource()
        self.buffers = {key: mr.allocate(8) for key in "abc"}
        self.cells = {k: np.from_dlpack(b).view(np.int32) for k, b in self.buffers.items()}
        for cell in self.cells.values():
            cell[:] = 0
        self.graph = self._build()

    def _node(self, builder, name, *keys):
        args = [self.buffers[k] for k in keys]
        launch(builder, LaunchConfig(grid=1, block=1), self.kernels[name], *args)

    def _build(self):
        builder = self.device.create_graph_builder().begin_building()
        self._node(builder, "bump", "a")
        left, right = builder.split(2)
        self._node(left, "twice", "a", "b")
        self._node(right, "square", "a", "c")
        builder = GraphBuilder.join(left, right)
        self._node(builder, "total", "a", "b", "c")
        graph = builder.end_building().complete()
        graph.upload(self.stream)
        return graph

    def advance(self, times):
        for _ in range(times):
            self.graph.launch(self.stream)
        self.stream.sync()
        return self.cells["a"].tolist()

    def close(self):
        self.stream.sync()
        self.graph.close()
        self.cells.clear()
        for buf in self.buffers.values():
            buf.close()


def main():
    counter = Counter()
    try:
        return [counter.advance(n) for n in (1, 3, 5)]
    finally:
        counter.close()


if __name__ == "__main__":
    print(main())
