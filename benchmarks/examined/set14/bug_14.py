from dataclasses import dataclass

import torch
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


@dataclass
class PlaneView:
    ptr: int
    pitch: int
    width: int
    height: int


class SurfaceImporter:
    """Copies decoder surfaces into torch tensors without a host round trip."""

    def __init__(self, gpu_id):
        self.gpu_id = gpu_id
        self.device = torch.device("cuda", gpu_id)
        with torch.cuda.device(self.device):
            self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def close(self):
        check(cudart.cudaStreamDestroy(self.stream))

    def make_tensor(self, plane):
        out = torch.full((plane.height, plane.width), 0, dtype=torch.uint8, device=self.device)
        check(
            cudart.cudaMemcpy2DAsync(
                out.data_ptr(),
                plane.width,
                plane.ptr,
                plane.pitch,
                plane.width,
                plane.height,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
                self.stream,
            )
        )
        return out

    def import_frame(self, planes):
        tensors = [self.make_tensor(plane) for plane in planes]
        check(cudart.cudaStreamSynchronize(self.stream))
        return tensors


class Detector:
    def __init__(self, model, importer):
        self.model = model.eval().to(importer.device)
        self.importer = importer

    @torch.inference_mode()
    def __call__(self, surface):
        planes = [
            PlaneView(p.GpuMem(), p.Pitch(), p.Width(), p.Height())
            for p in (surface.PlanePtr(i) for i in range(3))
        ]
        rgb = torch.stack(self.importer.import_frame(planes))
        image = rgb.float().div_(255.0).unsqueeze(0)
        return self.model(image)


def run(decoder, model, gpu_id=0, limit=None):
    importer = SurfaceImporter(gpu_id)
    detector = Detector(model, importer)
    results = []
    while limit is None or len(results) < limit:
        surface = decoder.DecodeSingleSurface()
        if surface.Empty():
            break
        results.append([r.cpu() for r in detector(surface)])
    importer.close()
    return results
