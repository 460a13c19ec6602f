"""One process of several: joins its share of a league, fits it, and prints findings as JSON."""

import json
import sys
from collections.abc import Callable
from datetime import date

import jax
import numpy as np


def main(address: str, count: int, number: int) -> None:
    """Join the others at `address`, fit, and report."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(address, count, number)
    from jax.experimental.multihost_utils import process_allgather

    import jaxkick as jk
    from jaxkick.dataset import exchange
    from tests.sharding.league import league, model

    # Small pieces, so that a message takes several.
    exchange._SMALLEST_PIECE = exchange._ALL_PIECES = 4096
    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    share = [slice(0, 40), slice(40, None)][number]
    data = jk.Dataset.from_shares(lambda: league(12, rows=share), mesh)
    posterior = jk.infer(model(), data, tol=1e-8)
    _, history = jk.learn(model(), posterior.data, max_steps=1)
    repr(posterior.data)
    prediction = posterior.predict("team 1", "team 2", 9.0, {"home": 1.0})
    precisions = process_allgather(posterior.sites[0].precision, tiled=True)
    report = {
        "devices": jax.device_count(),
        "same": same(data, league(12).shard(mesh)),
        "faults": faults(number, mesh),
        "evidence": float(posterior.log_marginal_likelihood),
        "learnt": history.values.tolist(),
        "mean": float(prediction.mean),
        "precisions": float(precisions.sum()),
    }
    print(json.dumps(report))  # noqa: T201
    jax.distributed.shutdown()


def same(found, expected) -> bool:
    """Whether two data sets agree bit by bit, in all that this process holds of them."""
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(expected)
    pairs = [
        (one.data, other.data)
        for first, second in zip(ours, theirs, strict=True)
        for one, other in zip(first.addressable_shards, second.addressable_shards, strict=True)
    ]
    alike = all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in pairs)
    structures = jax.tree.structure(found), jax.tree.structure(expected)
    return alike and structures[0] == structures[1] and found.names == expected.names


def faults(number: int, mesh: jax.sharding.Mesh) -> dict[str, str]:
    """What this process is told where the second process has a fault."""
    import jaxkick as jk

    def pair(time=0.0, first="a", **options) -> jk.Dataset:
        return jk.Dataset.from_pairs([time], [first], ["b"], **options)

    def told(read: Callable[[], jk.Dataset], mesh=mesh) -> str:
        try:
            jk.Dataset.from_shares(read, mesh)
        except ValueError as error:
            return str(error)
        return "nothing"

    fine = number == 0
    known = {"ac"[number]: "teams", "b": "teams"}
    own = jax.sharding.Mesh(np.array(jax.local_devices()), ("rows",))
    return {
        "row": told(lambda: pair(0.0 if fine else float("nan"))),
        "unit": told(lambda: pair(unit=None if fine else "day")),
        "mesh": told(pair, mesh if fine else own),
        "name": told(lambda: pair(first="a" if fine else date(2020, 1, 1))),
        "group": told(lambda: pair(groups=lambda name: name if fine else f"{name}s")),
        "rule": told(lambda: pair(first="ac"[number], groups=known.__getitem__)),
    }


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
