"""Contact graph assembly in Warp with a captured rebuild and a page-locked non-zero count."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def count_contacts(x: wp.array(dtype=wp.vec3), radius: float, counts: wp.array(dtype=int)):
    i = wp.tid()
    c = int(0)
    for j in range(x.shape[0]):
        if i != j and wp.length(x[i] - x[j]) < radius:
            c += 1
    counts[i] = c


@wp.kernel
def total_count(offsets: wp.array(dtype=int), counts: wp.array(dtype=int), nnz: wp.array(dtype=int)):
    last = offsets.shape[0] - 1
    nnz[0] = offsets[last] + counts[last]


@wp.kernel
def fill_columns(x: wp.array(dtype=wp.vec3), radius: float, offsets: wp.array(dtype=int), cols: wp.array(dtype=int)):
    i = wp.tid()
    k = offsets[i]
    for j in range(x.shape[0]):
        if i != j and wp.length(x[i] - x[j]) < radius:
            cols[k] = j
            k += 1


@wp.kernel
def advance(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    x[i] = x[i] + v[i] * dt


class ContactMatrix:
    """Row offsets and columns; the number of non-zeros is mirrored on the host."""

    def __init__(self, n, max_nnz, device):
        self.device = wp.get_device(device)
        self.counts = wp.zeros(n, dtype=int, device=device)
        self.offsets = wp.zeros(n, dtype=int, device=device)
        self.columns = wp.zeros(max_nnz, dtype=int, device=device)
        self.nnz = wp.zeros(1, dtype=int, device=device)
        self._nnz_host = wp.zeros(1, dtype=int, device="cpu", pinned=True)
        self._nnz_event = wp.Event(device)

    def notify_nnz_changed(self):
        wp.copy(self._nnz_host, self.nnz)
        if not self.device.is_capturing:
            wp.record_event(self._nnz_event)

    def nnz_sync(self):
        wp.synchronize_event(self._nnz_event)
        return int(self._nnz_host.numpy()[0])

    def rebuild(self, x, radius):
        n = x.shape[0]
        wp.launch(count_contacts, dim=n, inputs=[x, radius, self.counts], device=self.device)
        wp.utils.array_scan(self.counts, self.offsets, inclusive=False)
        wp.launch(total_count, dim=1, inputs=[self.offsets, self.counts, self.nnz], device=self.device)
        wp.launch(fill_columns, dim=n, inputs=[x, radius, self.offsets, self.columns], device=self.device)
        self.notify_nnz_changed()


class Simulation:
    def __init__(self, n=4096, radius=0.05, dt=1.0 / 240.0, device="cuda:0"):
        rng = np.random.default_rng(0)
        self.radius, self.dt, self.device = radius, dt, device
        self.x = wp.array(rng.random((n, 3)), dtype=wp.vec3, device=device)
        self.v = wp.array(rng.normal(size=(n, 3)), dtype=wp.vec3, device=device)
        self.matrix = ContactMatrix(n, n * 64, device)
        self.matrix.rebuild(self.x, radius)
        self.initial_nnz = self.matrix.nnz_sync()
        with wp.ScopedCapture(device=device) as capture:
            wp.launch(advance, dim=n, inputs=[self.x, self.v, dt], device=device)
            self.matrix.rebuild(self.x, radius)
        self.graph = capture.graph

    def step(self):
        wp.capture_launch(self.graph)
        return self.matrix.nnz_sync()


def main(steps=200):
    sim = Simulation()
    history = [sim.initial_nnz]
    for _ in range(steps):
        history.append(sim.step())
    print(min(history), max(history))
    return sim.matrix.columns.numpy()[: history[-1]]
