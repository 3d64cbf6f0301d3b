from dataclasses import dataclass


@dataclass(frozen=True)
class Op:
    kind: str
    layer: int

    def __str__(self):
        return f"{self.kind}:{self.layer}"


def plan(layers, ahead):
    for k in range(min(ahead, layers)):
        yield Op("fetch", k)
    for i in range(layers):
        if i + ahead < layers:
            yield Op("fetch", i + ahead)
        yield Op("apply", i)


def describe(layers, ahead):
    return " ".join(str(op) for op in plan(layers, ahead))


def traffic(layers, ahead, nbytes):
    return sum(nbytes for op in plan(layers, ahead) if op.kind == "fetch")
