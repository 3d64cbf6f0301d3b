"""What is known of a module without the code of its functions.

Who asks another module for a function rests on that function and on the outline. While both stay as they
are, so does what was found, whatever becomes of the other functions, of their variables and lines.
"""

from __future__ import annotations

from hashlib import blake2b

from streamlint import ir
from streamlint.lower.outline import in_tables
from streamlint.models import vocabulary
from streamlint.run.results import Part


def outline(module: ir.Module) -> bytes:
    """A digest of all that there is to know without a note of ``ir.Body``, but for places."""
    found = blake2b(module.outside, digest_size=16)
    for decl in in_tables(module.functions, module.classes):
        flags = decl.text_names & vocabulary.FLAGS  # ``touching.used_by`` asks for these, variables too
        sets = (decl.used, decl.members, decl.called, decl.own, decl.globals, decl.entered)
        more = (decl.keywords & decl.used, decl.stored, decl.packages, flags)
        given = [(name, sorted(sources)) for name, sources in decl.given]
        imports = sorted(decl.imports, key=repr)
        found.update(
            repr((decl.qualname, [sorted(each) for each in (*sets, *more)], given, imports)).encode()
        )
    return found.digest()


def whole(module: ir.Module) -> Part:
    """All that there is to look at."""
    functions = {decl.load.digest for decl in in_tables(module.functions, module.classes)}
    blocks = {module.load_body.digest, *(cls.load_body.digest for cls in ir.all_classes(module))}
    return Part(outline(module), frozenset(functions | blocks))
