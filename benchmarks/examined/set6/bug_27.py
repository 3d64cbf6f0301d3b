import torch
import warp as wp

wp.init()


@wp.kernel
def signed_distance_kernel(
    mesh: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    max_dist: float,
    sdf: wp.array(dtype=float),
):
    tid = wp.tid()
    query = wp.mesh_query_point(mesh, points[tid], max_dist)
    if query.result:
        closest = wp.mesh_eval_position(mesh, query.face, query.u, query.v)
        sdf[tid] = query.sign * wp.length(points[tid] - closest)
    else:
        sdf[tid] = max_dist


def signed_distance_field(
    vertices: torch.Tensor, faces: torch.Tensor, points: torch.Tensor, max_dist: float = 1e8
) -> torch.Tensor:
    vertices, points = vertices.contiguous(), points.contiguous()
    indices = faces.flatten().to(torch.int32)
    sdf = torch.zeros(points.shape[0], dtype=torch.float32, device=points.device)
    torch_stream = torch.cuda.current_stream(points.device)
    with wp.ScopedStream(wp.stream_from_torch(torch_stream)):
        mesh = wp.Mesh(
            points=wp.from_torch(vertices, dtype=wp.vec3),
            indices=wp.from_torch(indices, dtype=wp.int32),
        )
        wp.launch(
            signed_distance_kernel,
            dim=points.shape[0],
            inputs=[mesh.id, wp.from_torch(points, dtype=wp.vec3), max_dist],
            outputs=[wp.from_torch(sdf)],
        )
    return sdf


class ComputeSDF:
    """Dataset transform: adds the distance of every query point to the body surface."""

    def __init__(self, key: str = "sdf", max_dist: float = 1e8):
        self.key = key
        self.max_dist = max_dist

    def __call__(self, sample: dict) -> dict:
        sample[self.key] = signed_distance_field(
            sample["stl_coordinates"], sample["stl_faces"], sample["points"], self.max_dist
        )
        return sample


class PrefetchLoader:
    def __init__(self, dataset, transforms, device: str = "cuda:0"):
        self.dataset = dataset
        self.transforms = transforms
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def _load(self, index: int):
        with torch.cuda.stream(self.stream):
            sample = {k: v.to(self.device, non_blocking=True) for k, v in self.dataset[index].items()}
            for transform in self.transforms:
                sample = transform(sample)
        return sample, self.stream.record_event()

    def __iter__(self):
        pending = self._load(0)
        for index in range(len(self.dataset)):
            sample, ready = pending
            if index + 1 < len(self.dataset):
                pending = self._load(index + 1)
            current = torch.cuda.current_stream(self.device)
            current.wait_event(ready)
            for value in sample.values():
                value.record_stream(current)
            yield sample
