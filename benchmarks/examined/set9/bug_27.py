import json
import pathlib

import cupy as cp
import kvikio
import numpy as np

CHUNK_ROWS = 1 << 16


class FieldWriter:
    """Writes simulation fields with GPUDirect Storage, one file a field."""

    def __init__(self, root, dtype=cp.float32):
        self.root = pathlib.Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        self.dtype = np.dtype(dtype)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.manifest = {}

    def _normalize(self, field):
        lo, hi = field.min(), field.max()
        return ((field - lo) / cp.maximum(hi - lo, 1e-12)).astype(self.dtype)

    def write(self, name, field, producer_event=None):
        if producer_event is not None:
            self.stream.wait_event(producer_event)
        with self.stream:
            scaled = cp.ascontiguousarray(self._normalize(field))
        path = self.root / f"{name}.bin"
        with kvikio.CuFile(path, "w") as f:
            futures = []
            for row in range(0, scaled.shape[0], CHUNK_ROWS):
                part = scaled[row : row + CHUNK_ROWS]
                futures.append(f.pwrite(part, file_offset=row * scaled[0].nbytes))
            written = sum(fut.get() for fut in futures)
        assert written == scaled.nbytes
        self.manifest[name] = {"shape": scaled.shape, "dtype": self.dtype.str}

    def close(self):
        (self.root / "manifest.json").write_text(json.dumps(self.manifest))


def dump_step(writer, step, fields):
    ready = cp.cuda.get_current_stream().record()
    for name, field in fields.items():
        writer.write(f"{name}_{step:06d}", field, producer_event=ready)


def run(solver, out_dir, steps, every=50):
    writer = FieldWriter(out_dir)
    for step in range(steps):
        solver.advance()
        if step % every == 0:
            dump_step(writer, step, solver.fields())
            writer.stream.synchronize()
    writer.close()
