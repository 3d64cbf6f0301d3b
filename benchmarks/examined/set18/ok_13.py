"""Rigid contact state in Warp, mirrored to page-locked memory on the same stream as the graph."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def accumulate_contacts(pairs: wp.array2d(dtype=int), impulse: wp.array(dtype=float), link_impulse: wp.array(dtype=float)):
    t = wp.tid()
    f = impulse[t]
    wp.atomic_add(link_impulse, pairs[t, 0], f)
    wp.atomic_add(link_impulse, pairs[t, 1], f)


@wp.kernel
def threshold(link_impulse: wp.array(dtype=float), limit: float, in_contact: wp.array(dtype=wp.uint8)):
    i = wp.tid()
    flag = wp.uint8(0)
    if link_impulse[i] > limit:
        flag = wp.uint8(1)
    in_contact[i] = flag


@wp.kernel
def decay(impulse: wp.array(dtype=float), rate: float):
    i = wp.tid()
    impulse[i] = impulse[i] * rate


class RigidContactAPI:
    """Device buffers written by the solver and the host mirror that tasks read."""

    def __init__(self, num_links, num_pairs, device):
        self.device = device
        rng = np.random.default_rng(7)
        pairs = rng.integers(0, num_links, size=(num_pairs, 2)).astype(np.int32)
        self.pairs = wp.array(pairs, dtype=int, device=device)
        self.impulse = wp.zeros(num_pairs, dtype=float, device=device)
        self.incoming = wp.zeros(num_pairs, dtype=float, device=device)
        self.link_impulse = wp.zeros(num_links, dtype=float, device=device)
        self.in_contact = wp.zeros(num_links, dtype=wp.uint8, device=device)
        self.in_contact_host = wp.zeros(num_links, dtype=wp.uint8, device="cpu", pinned=True)
        self.staging = wp.zeros(num_pairs, dtype=float, device="cpu", pinned=True)
        self.uploaded = wp.Event(device)
        wp.record_event(self.uploaded)

    def read_from_solver(self, values):
        wp.synchronize_event(self.uploaded)
        self.staging.numpy()[:] = values
        wp.copy(self.incoming, self.staging)
        wp.record_event(self.uploaded)

    def refresh(self):
        wp.copy(self.impulse, self.incoming)
        self.link_impulse.zero_()
        wp.launch(accumulate_contacts, dim=self.impulse.shape[0],
                  inputs=[self.pairs, self.impulse, self.link_impulse], device=self.device)
        wp.launch(threshold, dim=self.in_contact.shape[0],
                  inputs=[self.link_impulse, 0.5, self.in_contact], device=self.device)
        wp.launch(decay, dim=self.incoming.shape[0], inputs=[self.incoming, 0.9], device=self.device)
        wp.copy(self.in_contact_host, self.in_contact)


class Simulator:
    def __init__(self, num_links=2048, num_pairs=65536, device="cuda:0"):
        self.device = wp.get_device(device)
        self.contacts = RigidContactAPI(num_links, num_pairs, device)
        self.graph = None
        self.graph_dirty = True

    def _capture(self):
        with wp.ScopedCapture(device=self.device) as capture:
            self.contacts.refresh()
        self.graph = capture.graph
        self.graph_dirty = False

    def post_physics_step(self, values):
        self.contacts.read_from_solver(values)
        if self.graph_dirty:
            self.contacts.refresh()
            wp.synchronize_stream(wp.get_stream(self.device))
            self._capture()
        else:
            wp.capture_launch(self.graph)
            wp.synchronize_stream(wp.get_stream(self.device))
        return self.contacts.in_contact_host.numpy().copy()


def main(steps=300):
    sim = Simulator()
    rng = np.random.default_rng(11)
    touched = np.zeros(2048, dtype=np.int64)
    for _ in range(steps):
        touched += sim.post_physics_step(rng.random(65536).astype(np.float32))
    return touched
