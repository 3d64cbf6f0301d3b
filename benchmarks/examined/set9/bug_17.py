import numpy as np
import warp as wp


@wp.kernel
def write_joint_friction_data_to_buffer(
    friction: wp.array2d(dtype=wp.float32),
    env_ids: wp.array(dtype=wp.int32),
    joint_ids: wp.array(dtype=wp.int32),
    out: wp.array3d(dtype=wp.float32),
):
    i, j = wp.tid()
    out[env_ids[i], joint_ids[j], 0] = friction[i, j]


class CpuPropertyBinding:
    """Binding of a property that the solver keeps in host memory."""

    def __init__(self, host: np.ndarray):
        self._host = host
        self.shape = host.shape

    def write(self, src: wp.array, indices: wp.array | None = None):
        values = src.numpy()
        if indices is None:
            self._host[...] = values
        else:
            rows = indices.numpy()
            self._host[rows] = values[rows]


class ArticulationData:
    def __init__(self, num_envs: int, num_joints: int, device: str):
        self.device = device
        self._cpu_staging_buffers: dict[tuple[str, str], wp.array] = {}
        self.joint_friction_props = wp.zeros((num_envs, num_joints, 3), dtype=wp.float32, device=device)

    def _stage_to_pinned_cpu(self, tensor_type: str, role: str, src: wp.array) -> wp.array:
        key = (tensor_type, role)
        staging = self._cpu_staging_buffers.get(key)
        if staging is None:
            staging = wp.zeros(src.shape, dtype=wp.float32, device="cpu", pinned=True)
            self._cpu_staging_buffers[key] = staging
        wp.copy(staging, src)
        return staging


class Articulation:
    def __init__(self, num_envs: int, num_joints: int, device: str = "cuda:0"):
        self._device = device
        self._data = ArticulationData(num_envs, num_joints, device)
        self._host_friction = np.zeros((num_envs, num_joints, 3), dtype=np.float32)
        self._bindings = {"dof_friction": CpuPropertyBinding(self._host_friction)}

    def _resolve_ids(self, ids, device) -> wp.array:
        return wp.array(np.asarray(ids, dtype=np.int32), dtype=wp.int32, device=device)

    def write_joint_friction_coefficient_to_sim(self, friction: wp.array, env_ids, joint_ids) -> None:
        wp.launch(
            write_joint_friction_data_to_buffer,
            dim=friction.shape,
            inputs=[friction, self._resolve_ids(env_ids, self._device), self._resolve_ids(joint_ids, self._device)],
            outputs=[self._data.joint_friction_props],
            device=self._device,
        )
        cpu_env_ids = self._resolve_ids(env_ids, "cpu")
        cpu_friction = self._data._stage_to_pinned_cpu("dof_friction", "write", self._data.joint_friction_props)
        self._bindings["dof_friction"].write(cpu_friction, indices=cpu_env_ids)
