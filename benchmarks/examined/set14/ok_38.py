import torch
import warp as wp

wp.init()


@wp.kernel
def spring_forces(
    pos: wp.array(dtype=wp.vec3),
    edges: wp.array(dtype=wp.vec2i),
    rest: wp.array(dtype=float),
    stiffness: float,
    force: wp.array(dtype=wp.vec3),
):
    e = wp.tid()
    i = edges[e][0]
    j = edges[e][1]
    d = pos[j] - pos[i]
    length = wp.length(d)
    f = d * (stiffness * (length - rest[e]) / wp.max(length, 1.0e-6))
    wp.atomic_add(force, i, f)
    wp.atomic_sub(force, j, f)


@wp.kernel
def advance(
    pos: wp.array(dtype=wp.vec3),
    vel: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    drive: wp.array(dtype=wp.vec3),
    dt: float,
):
    i = wp.tid()
    vel[i] = (vel[i] + (force[i] + drive[i]) * dt) * 0.999
    pos[i] = pos[i] + vel[i] * dt


class SoftBody:
    def __init__(self, points, edges, rest, device="cuda:0", dt=1.0e-3, stiffness=200.0):
        self.device = wp.get_device(device)
        self.torch_device = wp.device_to_torch(self.device)
        self.pos = wp.array(points, dtype=wp.vec3, device=self.device)
        self.vel = wp.zeros_like(self.pos)
        self.force = wp.zeros_like(self.pos)
        self.edges = wp.array(edges, dtype=wp.vec2i, device=self.device)
        self.rest = wp.array(rest, dtype=float, device=self.device)
        self.dt, self.stiffness = dt, stiffness
        self.pos_torch = wp.to_torch(self.pos)
        self.vel_torch = wp.to_torch(self.vel)

    def _stream(self):
        return wp.stream_from_torch(torch.cuda.current_stream(self.torch_device))

    def step(self, drive, substeps=8):
        with wp.ScopedStream(self._stream()):
            push = wp.from_torch(drive.contiguous(), dtype=wp.vec3)
            for _ in range(substeps):
                self.force.zero_()
                wp.launch(
                    spring_forces,
                    dim=self.edges.shape[0],
                    inputs=[self.pos, self.edges, self.rest, self.stiffness, self.force],
                    device=self.device,
                )
                wp.launch(
                    advance,
                    dim=self.pos.shape[0],
                    inputs=[self.pos, self.vel, self.force, push, self.dt],
                    device=self.device,
                )
        return torch.cat((self.pos_torch, self.vel_torch), dim=-1)


@torch.no_grad()
def rollout(body, controller, steps):
    stream = torch.cuda.Stream(body.torch_device)
    wp.synchronize_device(body.device)
    stream.wait_stream(torch.cuda.current_stream(body.torch_device))
    heights = []
    with torch.cuda.stream(stream):
        state = torch.cat((body.pos_torch, body.vel_torch), dim=-1)
        for _ in range(steps):
            state = body.step(controller(state))
            heights.append(state[:, 1].mean())
        trace = torch.stack(heights).cpu()
    return trace
