"""One process of several: fits a league on all devices, and prints its results as JSON."""

import json
import sys

import jax


def main(address: str, count: int, number: int) -> None:
    """Join the others at `address`, fit, and report."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(address, count, number)
    from jax.experimental.multihost_utils import process_allgather

    import jaxkick as jk
    from tests.sharding.league import league, model

    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    data = league(12).shard(mesh)
    posterior = jk.infer(model(), data, tol=1e-8)
    _, history = jk.learn(model(), posterior.data, max_steps=1)
    repr(posterior.data)
    prediction = posterior.predict("team 1", "team 2", 9.0, {"home": 1.0})
    precisions = process_allgather(posterior.sites[0].precision, tiled=True)
    report = {
        "devices": jax.device_count(),
        "evidence": float(posterior.log_marginal_likelihood),
        "learnt": history.values.tolist(),
        "mean": float(prediction.mean),
        "precisions": float(precisions.sum()),
    }
    print(json.dumps(report))  # noqa: T201
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
