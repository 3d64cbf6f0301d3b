import numpy as np

from audio import MelBank, Service, TorchBridge
from tagger import default_tagger

PARTS = {"features": MelBank, "bridge": TorchBridge, "model": default_tagger}


def chunks(count, seconds=20, rate=16000):
    rng = np.random.default_rng(2)
    for _ in range(count):
        yield rng.standard_normal(seconds * rate).astype(np.float32)


def main():
    service = Service.assemble(PARTS)
    for wave in chunks(64):
        rows = service.push(wave)
        if rows is not None:
            print(rows.argmax(1).tolist())


if __name__ == "__main__":
    main()
