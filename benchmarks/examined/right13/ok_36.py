"""Re-tiles host panels into a row-major matrix with 2-D copies on several streams."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def ok(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


class PanelAssembler:
    def __init__(self, rows, panel_cols, panels):
        self.rows, self.panel_cols, self.panels = rows, panel_cols, panels
        self.panel_bytes = rows * panel_cols * 4
        self.pitch = panel_cols * panels * 4
        self.streams = [ok(rt.cudaStreamCreate()) for _ in range(panels)]
        self.host_ptr = ok(rt.cudaHostAlloc(self.panel_bytes * panels, rt.cudaHostAllocDefault))
        raw = (ctypes.c_float * (rows * panel_cols * panels)).from_address(int(self.host_ptr))
        self.host = np.frombuffer(raw, np.float32).reshape(panels, rows, panel_cols)
        self.linear = ok(rt.cudaMalloc(self.panel_bytes * panels))
        self.matrix = ok(rt.cudaMalloc(self.panel_bytes * panels))

    def _send(self, p):
        stream = self.streams[p]
        offset = p * self.panel_bytes
        width = self.panel_cols * 4
        ok(rt.cudaMemcpyAsync(self.linear + offset, int(self.host_ptr) + offset,
                              self.panel_bytes, H2D, stream))
        ok(rt.cudaMemcpy2DAsync(self.matrix + p * width, self.pitch, self.linear + offset, width,
                                width, self.rows, D2D, stream))

    def assemble(self, panels):
        if len(panels) > self.panels:
            raise ValueError("too many panels")
        for p, panel in enumerate(panels):
            if panel.shape != (self.rows, self.panel_cols):
                raise ValueError(f"panel {p} has shape {panel.shape}")
        result = np.empty((self.rows, self.panel_cols * self.panels), np.float32)
        ok(rt.cudaMemset(self.matrix, 0, self.panel_bytes * self.panels))
        for p, panel in enumerate(panels):
            self.host[p] = panel
            self._send(p)
        ok(rt.cudaMemcpy(result.ctypes.data, self.matrix, result.nbytes, D2H))
        return result

    def close(self):
        for stream in self.streams:
            ok(rt.cudaStreamSynchronize(stream))
            ok(rt.cudaStreamDestroy(stream))
        self.streams = []
        ok(rt.cudaFree(self.linear))
        ok(rt.cudaFree(self.matrix))
        self.host = None
        ok(rt.cudaFreeHost(self.host_ptr))


def main():
    asm = PanelAssembler(rows=256, panel_cols=64, panels=8)
    rng = np.random.default_rng(0)
    try:
        for count in (8, 3, 0, 8):
            panels = [rng.random((256, 64), dtype=np.float32) for _ in range(count)]
            whole = asm.assemble(panels)
            expect = np.concatenate(panels, axis=1) if panels else np.zeros((256, 0), np.float32)
            assert np.array_equal(whole[:, :expect.shape[1]], expect)
            assert not whole[:, expect.shape[1]:].any()
    finally:
        asm.close()
    print("assembled")


if __name__ == "__main__":
    main()
