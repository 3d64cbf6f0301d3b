import torch

from sessions import Sessions
from spill import Spiller

LAYERS, TOKENS, DIM = 24, 2048, 256


def replay(sessions, log):
    for verb, key in log:
        if verb == "open":
            sessions.open(key, float(len(key)))
            for pos in range(8):
                sessions.extend(key, pos, torch.randn(LAYERS, 2, DIM, device="cuda"))
        elif verb == "park":
            sessions.park(key)
        elif verb == "unpark":
            sessions.unpark(key)
        elif verb == "close":
            sessions.close(key)
    return {key: t.mean().item() for key, t in sessions.live.items()}


LOG = [
    ("open", "ann"), ("park", "ann"), ("unpark", "ann"),
    ("open", "bob"), ("park", "bob"), ("close", "bob"),
    ("open", "cleo"),
]

if __name__ == "__main__":
    print(replay(Sessions(Spiller(), LAYERS, TOKENS, DIM), LOG))
