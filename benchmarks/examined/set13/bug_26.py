import warp as wp


@wp.kernel
def pid_step(
    target: wp.array(dtype=float),
    joint_q: wp.array(dtype=float),
    joint_qd: wp.array(dtype=float),
    integral_in: wp.array(dtype=float),
    integral_out: wp.array(dtype=float),
    effort: wp.array(dtype=float),
    gains: wp.vec3,
    dt: float,
):
    i = wp.tid()
    err = target[i] - joint_q[i]
    acc = integral_in[i] + err * dt
    integral_out[i] = acc
    effort[i] = gains[0] * err + gains[1] * acc - gains[2] * joint_qd[i]


@wp.kernel
def integrate(joint_q: wp.array(dtype=float), joint_qd: wp.array(dtype=float),
              effort: wp.array(dtype=float), inv_mass: float, dt: float):
    i = wp.tid()
    joint_qd[i] = joint_qd[i] + effort[i] * inv_mass * dt
    joint_q[i] = joint_q[i] + joint_qd[i] * dt


class StatefulActuator:
    def __init__(self, num_joints, gains, device):
        self.gains = wp.vec3(*gains)
        self.device = device
        self.act_state_in = wp.zeros(num_joints, dtype=float, device=device)
        self.act_state_out = wp.zeros(num_joints, dtype=float, device=device)

    def step(self, target, joint_q, joint_qd, effort, dt):
        wp.launch(
            pid_step, dim=target.shape[0],
            inputs=[target, joint_q, joint_qd, self.act_state_in, self.act_state_out, effort, self.gains, dt],
            device=self.device,
        )
        self.act_state_in, self.act_state_out = self.act_state_out, self.act_state_in


class Simulation:
    def __init__(self, num_joints, decimation=1, dt=0.005, device="cuda:0"):
        self.device = device
        self.decimation = decimation
        self.dt = dt
        self.actuator = StatefulActuator(num_joints, (40.0, 5.0, 1.0), device)
        self.target = wp.zeros(num_joints, dtype=float, device=device)
        self.joint_q = wp.zeros(num_joints, dtype=float, device=device)
        self.joint_qd = wp.zeros(num_joints, dtype=float, device=device)
        self.effort = wp.zeros(num_joints, dtype=float, device=device)
        self.graph = None
        wp.load_module(device=device)

    def simulate(self):
        for _ in range(self.decimation):
            self.actuator.step(self.target, self.joint_q, self.joint_qd, self.effort, self.dt)
            wp.launch(integrate, dim=self.joint_q.shape[0],
                      inputs=[self.joint_q, self.joint_qd, self.effort, 1.0, self.dt], device=self.device)

    def capture(self):
        with wp.ScopedCapture(device=self.device) as capture:
            self.simulate()
        self.graph = capture.graph

    def step(self, target):
        self.target.assign(target)
        if self.graph is None:
            self.capture()
        wp.capture_launch(self.graph)
        return self.joint_q.numpy()


def run(targets, num_joints=12):
    sim = Simulation(num_joints, decimation=3)
    return [sim.step(t) for t in targets]
