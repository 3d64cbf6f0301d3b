"""Autograd: what keeps memory until a backward pass has run."""

SAVED_TENSORS_HOOKS = "torch.autograd.graph.saved_tensors_hooks"
FUNCTION = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
"""What a pair of ``forward`` and ``backward`` is derived from
(https://docs.pytorch.org/docs/stable/autograd.html#function)."""
FORWARD, SETS_UP, BACKWARD = "forward", "setup_context", "backward"
"""Its methods, which PyTorch calls."""
KEEPS_GRAPH = ("retain_graph", "create_graph")
"""Flags of ``backward`` by which autograd keeps what it has saved."""

MAKES_PARAMETERS = frozenset({"requires_grad", "requires_grad_", "Parameter", "register_parameter"})
"""Words by which a tensor comes to need a gradient
(https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad)."""
