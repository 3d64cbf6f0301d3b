import csv
from concurrent.futures import ThreadPoolExecutor

import torch


class LoggingHook:
    """Writes scalar observables of every n-th step to a CSV file."""

    def __init__(self, path, frequency=1, scalars=None):
        self.path = path
        self.frequency = frequency
        self.scalars = scalars or {}
        self._stream = None
        self._writer = None
        self._file = None
        self._executor = ThreadPoolExecutor(max_workers=1)
        self._pending = []

    def __enter__(self):
        self._file = open(self.path, "w", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(["step", *self.scalars])
        return self

    def __exit__(self, *exc):
        for fut in self._pending:
            fut.result()
        self._executor.shutdown(wait=True)
        self._file.close()

    def _compute_scalars(self, state):
        return {name: fn(state).detach() for name, fn in self.scalars.items()}

    def _write_row(self, step, host, event):
        event.synchronize()
        self._writer.writerow([step, *(float(v) for v in host.values())])

    def on_step(self, step, state):
        if step % self.frequency:
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(device=state["positions"].device)
        values = self._compute_scalars(state)

        main_stream = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(main_stream)
        host = {}
        with torch.cuda.stream(self._stream):
            for name, value in values.items():
                host[name] = value.to("cpu", non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        self._pending.append(self._executor.submit(self._write_row, step, host, event))


def kinetic_energy(state):
    return 0.5 * (state["masses"] * state["velocities"].pow(2).sum(-1)).sum()


def max_force(state):
    return state["forces"].norm(dim=-1).max()


def run_md(potential, state, dt, steps, path):
    hooks = {"ekin": kinetic_energy, "fmax": max_force}
    with LoggingHook(path, frequency=10, scalars=hooks) as hook:
        for step in range(steps):
            state["velocities"] = state["velocities"] + dt * state["forces"] / state["masses"][:, None]
            state["positions"] = state["positions"] + dt * state["velocities"]
            state["forces"] = potential(state["positions"])
            hook.on_step(step, state)
    return state
