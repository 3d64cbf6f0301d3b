import cupy as cp
import numpy as np

from flow import Flow

STEPS = [
    {"kind": "window"},
    {"kind": "power", "unit": True},
    {"kind": "smooth"},
    {"kind": "peaks", "floor": 0.8},
]


def main(frames=24, shape=(4096, 2048)):
    rng = np.random.default_rng(0)
    plates = [cp.asarray(rng.standard_normal(shape, dtype=np.float32)) for _ in range(3)]
    flow = Flow(shape, STEPS)
    for i in range(frames):
        flow(plates[i % 3])
    picture = flow.finish()
    print(picture.shape, float(picture.mean()))


if __name__ == "__main__":
    main()
