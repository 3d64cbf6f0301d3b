"""Differentiable soft-body walker: network weights drive muscle activations,
the roll-out of an episode is captured into a CUDA graph and replayed."""
import numpy as np
import warp as wp


@wp.kernel
def activate(weights: wp.array(dtype=float), phase: wp.array(dtype=float), act: wp.array(dtype=float)):
    i = wp.tid()
    act[i] = wp.tanh(weights[i] * phase[0])


@wp.kernel
def integrate(q: wp.array(dtype=wp.vec3), qd: wp.array(dtype=wp.vec3), act: wp.array(dtype=float),
              q_out: wp.array(dtype=wp.vec3), qd_out: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    f = wp.vec3(act[i % act.shape[0]], -9.81, 0.0)
    v = (qd[i] + f * dt) * 0.999
    qd_out[i] = v
    q_out[i] = q[i] + v * dt


@wp.kernel
def com_loss(q: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, -q[i][0] / float(q.shape[0]))


class State:
    def __init__(self, q0, device):
        self.particle_q = wp.array(q0, dtype=wp.vec3, device=device, requires_grad=True)
        self.particle_qd = wp.zeros(len(q0), dtype=wp.vec3, device=device, requires_grad=True)


class Model:
    def __init__(self, n, device):
        rng = np.random.default_rng(0)
        self.device = device
        self.q0 = rng.random((n, 3)).astype(np.float32)

    def state(self):
        return State(self.q0, self.device)


class Walker:
    def __init__(self, n=20_000, n_act=64, steps=50, device="cuda:0"):
        self.device = wp.get_device(device)
        self.model = Model(n, self.device)
        self.n, self.steps, self.dt = n, steps, 1.0 / 600.0
        self.states = [self.model.state() for _ in range(steps + 1)]
        self.weights = wp.array(np.random.default_rng(1).normal(size=n_act), dtype=float,
                                device=self.device, requires_grad=True)
        self.act = wp.zeros(n_act, dtype=float, device=self.device, requires_grad=True)
        self.phase = wp.full(1, 0.5, dtype=float, device=self.device)
        self.loss = wp.zeros(1, dtype=float, device=self.device, requires_grad=True)
        wp.load_module(device=self.device)
        with wp.ScopedCapture(device=self.device) as capture:
            self.tape = wp.Tape()
            with self.tape:
                self.forward()
            self.tape.backward(self.loss)
        self.graph = capture.graph

    def forward(self):
        wp.launch(activate, dim=self.act.shape[0], inputs=[self.weights, self.phase, self.act])
        for s, t in zip(self.states, self.states[1:]):
            wp.launch(integrate, dim=self.n, inputs=[s.particle_q, s.particle_qd, self.act,
                                                     t.particle_q, t.particle_qd, self.dt])
        wp.launch(com_loss, dim=self.n, inputs=[self.states[-1].particle_q, self.loss])

    def set_start(self, offset):
        q = self.model.q0 + np.asarray(offset, dtype=np.float32)
        self.states[0] = self.model.state()
        self.states[0].particle_q.assign(q)

    def train(self, iters, lr=0.1):
        rng = np.random.default_rng(2)
        for k in range(iters):
            self.set_start(rng.normal(size=3) * 0.1)
            self.loss.zero_()
            wp.capture_launch(self.graph)
            w = self.weights.numpy() - lr * self.weights.grad.numpy()
            self.weights.assign(w)
            self.tape.zero()
            print(k, float(self.loss.numpy()[0]))


if __name__ == "__main__":
    wp.init()
    with wp.ScopedDevice("cuda:0"):
        Walker().train(20)
