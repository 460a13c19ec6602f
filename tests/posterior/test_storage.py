"""Files: exact round trips, and clear errors for anything else."""

import io
import json
import os
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick import kernels as k
from jaxkick.data import Dataset
from jaxkick.likelihoods import AbstractLikelihood

TABLE = {
    "t": ["2001-01-01", "2001-02-01", "2001-02-01", "2001-07-01", "2002-01-01"],
    "a": ["ant", "bee", "cat", "ant", "bee"],
    "b": ["bee", "cat", "ant", "cat", "ant"],
    "x": [3, 1, 0, 2, 1],
    "y": [1, 1, 2, 0, 1],
}
COLUMNS = {"time": "t", "first": "a", "second": "b", "result": ("x", "y"), "home": True}
MODEL = jk.Model(k.Matern12(1.0, 2.0), jk.likelihoods.OrdinalProbit(margin=0.4))


def identical(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    return True


@pytest.fixture(scope="module")
def posterior():
    return jk.infer(MODEL, Dataset.from_frame(TABLE, **COLUMNS))


MODELS = [
    MODEL,
    jk.Model(
        {
            "a": k.Constant(0.1) + 2.0 * k.Periodic(1.0, 1.0, 3.0, order=2) * k.Wiener(0.3),
            "b": k.PiecewiseConstant(1.0, [1.5, 2.5]) + k.Linear(0.2, origin=3.0),
            "c": k.LinearSDE([[-1.0]], [1.0], 2.0, [1.0]),
            "d": k.Cosine(1.0, 2.0) + k.SquaredExponential(1.0, jk.Tied("l", 2.0), order=4),
        },
        jk.likelihoods.OrdinalLogit(cuts=[-1.0, 0.0, 2.5]),
        mean={"a": jk.Fixed(0.3)},
    ),
    jk.Model(k.Matern52(1.0, 3.0), jk.likelihoods.Skellam(-0.3), mean=np.arange(3.0)),
]


@pytest.mark.parametrize("model", MODELS)
def test_models(model, tmp_path):
    jk.save(tmp_path / "model", model)
    again = jk.load(tmp_path / "model")
    assert identical(again, model)
    assert repr(again) == repr(model)


def test_posteriors(posterior, tmp_path):
    jk.save(tmp_path / "fit", posterior)
    again = jk.load(str(tmp_path / "fit"))
    assert identical(again.data, posterior.data)
    assert again.data.index == posterior.data.index
    assert repr(again.data) == repr(posterior.data)
    assert identical(again.sites, posterior.sites)
    assert identical(again.observations, posterior.observations)
    assert again.log_marginal_likelihood == posterior.log_marginal_likelihood
    for ours, theirs in zip(again.scores("ant"), posterior.scores("ant"), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = (
        each.predict("ant", "dog", "2002-03-01", home=1, allow_unknown=True).probabilities
        for each in (again, posterior)
    )
    np.testing.assert_array_equal(ours, theirs)
    more = TABLE | {"t": ["2003-01-01"] * 5}
    np.testing.assert_array_equal(
        again.update(more).log_marginal_likelihood, posterior.update(more).log_marginal_likelihood
    )


def test_streams(tmp_path):
    stream = jk.Stream.start(MODEL, Dataset.from_frame(TABLE, **COLUMNS))
    jk.save(tmp_path / "stream", stream)
    again = jk.load(tmp_path / "stream")
    assert repr(again) == repr(stream)
    more = TABLE | {"t": ["2003-01-01"] * 5, "a": ["dog"] * 5}
    one, other = stream.observe(more), again.observe(more)
    assert identical(one.states, other.states)
    assert one.log_evidence == other.log_evidence


class Triangle(AbstractLikelihood):
    """A user's own likelihood."""

    width: jax.Array

    def log_prob(self, outcome, score):
        return -jnp.abs(outcome - score) / self.width


def test_classes_of_the_user(tmp_path):
    model = jk.Model(k.Constant(1.0), Triangle(jnp.asarray(2.0)))
    jk.save(tmp_path / "model", model)
    with pytest.raises(
        ValueError,
        match=r"holds a `Triangle`, which is not .* `load\(path, classes=\[Triangle",
    ):
        jk.load(tmp_path / "model")
    assert identical(jk.load(tmp_path / "model", classes=[Triangle]), model)
    with pytest.raises(TypeError, match="not an object of type `dict`"):
        jk.save(tmp_path / "model", {})
    assert identical(jk.load(tmp_path / "model", classes=[Triangle]), model)


def test_groups_given_as_a_function(tmp_path):
    def groups(name):
        return "insects" if name != "cat" else "pets"

    data = Dataset.from_pairs([0.0, 1.0], ["ant", "cat"], ["bee", "bee"], groups=groups)
    stream = jk.Stream.start(jk.Model(k.Constant(1.0), jk.likelihoods.Probit()), data)
    jk.save(tmp_path / "stream", stream)
    again = jk.load(tmp_path / "stream")
    assert again.roster.group_of("cat") == "pets"
    with pytest.raises(ValueError, match="The group of 'dog' is unknown: `groups` was a func"):
        again.predict("dog", "cat", 3.0, allow_unknown=True)
    handed = jk.load(tmp_path / "stream", groups=groups)
    assert handed.roster.group_of("dog") == "insects"


def test_models_in_64_bits_need_64_bits(tmp_path):
    jk.save(tmp_path / "model", MODEL)
    with (
        jax.enable_x64(False),
        pytest.raises(
            ValueError, match=r"holds float64, but JAX is set to 32 bits now\. Call `jax\.config"
        ),
    ):
        jk.load(tmp_path / "model")


def test_files_are_written_atomically(tmp_path, monkeypatch):
    jk.save(tmp_path / "model", MODELS[0])

    def fail(handle):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        jk.save(tmp_path / "model", MODELS[1])
    assert os.listdir(tmp_path) == ["model"]
    assert identical(jk.load(tmp_path / "model"), MODELS[0])


def test_damaged_files_are_refused(posterior, tmp_path):
    path = tmp_path / "fit"
    jk.save(path, posterior)
    whole = path.read_bytes()
    for part in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:part])
        with pytest.raises(ValueError, match="cannot be read: it is damaged"):
            jk.load(path)
    generator = np.random.default_rng(0)
    for place in generator.integers(0, len(whole), 60):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        try:
            again = jk.load(path)
        except ValueError:
            continue
        # A flipped byte may be part of a time stamp of the zip file, which is not used.
        assert identical(again.sites, posterior.sites)
    with pytest.raises(FileNotFoundError):
        jk.load(tmp_path / "nowhere")


def rewrite(path, change):
    """Rewrite a file with some parts changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts.pop("jaxkick.json"))
    method = change(header, parts) or zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("jaxkick.json", json.dumps(header))
        for name, part in parts.items():
            archive.writestr(name, part)


def array_bytes(array, **options):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


def hostile_shape(header, parts):
    part = parts["array0.npy"]
    parts["array0.npy"] = part.replace(b"'shape': ()", b"'shape': (999999999999,)")[: len(part)]


def set_version(header, parts):
    header["version"] = 99


def set_format(header, parts):
    header["format"] = "other"


def set_thing(header, parts):
    header["content"]["thing"] = "shell"


def set_class(header, parts):
    header["content"]["body"]["kind"] = "Popen"


def drop_field(header, parts):
    del header["content"]["body"]["fields"]["mean"]


def set_kernel(header, parts):
    header["content"]["body"]["fields"]["kernel"] = "text"


def set_tag(header, parts):
    header["content"]["body"] = {"decode": 1}


def nest_deeply(header, parts):
    node = []
    for _ in range(400):
        node = [node]
    header["content"]["body"] = node


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            set_version,
            "has version 99 of the format, but this jaxkick reads versions up to 1. Update",
        ),
        (set_format, "is not a jaxkick file"),
        (set_thing, "contains an unknown kind of object, 'shell'"),
        (set_class, "holds a `Popen`, which is not a class of jaxkick"),
        (
            drop_field,
            "fields kernel, likelihood, newcomer_mean, newcomers, but the class has kernel, like",
        ),
        (
            set_kernel,
            "`kernel` must be a kernel or a mapping from groups to kernels, but 'skill' is str",
        ),
        (set_tag, "holds {'decode': 1}, which is not valid"),
        (nest_deeply, "there is no model where one is expected|do not fit together"),
        (lambda header, parts: parts.clear(), "the array 'array0' is missing"),
        (
            lambda header, parts: parts.update(
                {"array0.npy": array_bytes(np.array([print], object), allow_pickle=True)}
            ),
            "is not a numeric array of the size it claims",
        ),
        (lambda header, parts: parts.update({"array0.npy": b"text"}), "is not an array"),
        (hostile_shape, "is not a numeric array"),
        (
            lambda header, parts: zipfile.ZIP_DEFLATED,
            "is compressed or encrypted",
        ),
    ],
)
def test_invalid_content_is_refused(change, message, tmp_path):
    jk.save(tmp_path / "model", MODEL)
    rewrite(tmp_path / "model", change)
    with pytest.raises(ValueError, match=message):
        jk.load(tmp_path / "model")


def test_other_zip_files_are_refused(tmp_path):
    np.savez(tmp_path / "some.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="is a zip file, but not a jaxkick file"):
        jk.load(tmp_path / "some.npz")


def set_array(path, old, new):
    """Replace the arrays of a file that hold one number."""

    def change(header, parts):
        for name, part in parts.items():
            array = np.load(io.BytesIO(part))
            if array.dtype.kind == "f" and array.shape == () and array == old:
                parts[name] = array_bytes(np.asarray(new, array.dtype))

    rewrite(path, change)


def set_order(header, parts):
    fields = header["content"]["body"]["fields"]["kernel"]["fields"]
    fields["order"] = 10**8


def test_loading_checks_as_constructors_do(tmp_path):
    path = tmp_path / "model"
    for bad, message in (
        (np.nan, "not finite .at `kernel.variance`"),
        (-1.0, "`variance` is -1.0, but must not be negative"),
    ):
        kernel = k.Matern12(jk.Fixed(7.5), 2.0)
        jk.save(path, jk.Model(kernel, jk.likelihoods.Probit()))
        set_array(path, 7.5, bad)
        with pytest.raises(jk.DataError, match=message):
            jk.load(path)
    jk.save(path, jk.Model(k.Periodic(1.0, 1.0, 1.0), jk.likelihoods.Probit()))
    rewrite(path, set_order)
    with pytest.raises(jk.DataError, match=r"`order` must be an integer from 1 to .* 100000000"):
        jk.load(path)


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("m", lambda x: x * np.nan, "states that are not finite"),
        ("P", lambda x: -x, "states that are not finite or not possible"),
        ("P", lambda x: x[:, 0], "do not fit its model"),
        ("matches", lambda x: -x, "impossible groups, times or numbers of matches"),
        ("group", lambda x: x + 7, "impossible groups"),
        ("last", lambda x: x * np.nan, "impossible groups, times"),
    ],
)
def test_streams_are_checked(field, change, message, tmp_path):
    path = tmp_path / "stream"
    jk.save(path, jk.Stream.start(MODEL, Dataset.from_frame(TABLE, **COLUMNS)))

    def find(node):
        if isinstance(node, dict) and isinstance(node.get(field), dict):
            yield node[field]["array"]
        for part in node.values() if isinstance(node, dict) else node:
            if isinstance(part, dict | list):
                yield from find(part)

    def spoil(header, parts):
        name = f"{next(find(header))}.npy"
        array = np.load(io.BytesIO(parts[name]))
        parts[name] = array_bytes(np.ascontiguousarray(change(array)))

    rewrite(path, spoil)
    with pytest.raises(jk.DataError, match=message):
        jk.load(path)


def test_outcomes_are_checked_against_the_likelihood(posterior, tmp_path):
    path = tmp_path / "fit"
    jk.save(path, posterior)

    def change(header, parts):
        for pair in header["content"]["body"]["dict"]:
            if pair[0] == "model":
                pair[1]["fields"]["likelihood"] = {"kind": "Probit", "fields": {}}

    rewrite(path, change)
    with pytest.raises(jk.DataError, match="Probit"):
        jk.load(path)


def test_masked_outcomes_are_not_checked(tmp_path):
    data = Dataset.from_pairs([0.0, 1.0, 2.0], ["a", "b", "a"], ["b", "c", "c"], [1.0, 0.0, -1.0])
    model = jk.Model(k.Constant(1.0), jk.likelihoods.Probit())
    jk.save(tmp_path / "fit", jk.infer(model, data, mask=np.array([True, False, True])))
    assert len(jk.load(tmp_path / "fit").data) == 3


def test_posteriors_in_64_bits_need_64_bits(posterior, tmp_path):
    jk.save(tmp_path / "fit", posterior)
    with (
        jax.enable_x64(False),
        pytest.raises(jk.DataError, match=r"jax.config.update\('jax_enable_x64', True\)"),
    ):
        jk.load(tmp_path / "fit")


def test_variances_below_zero_are_refused(posterior, tmp_path):
    path = tmp_path / "fit"
    jk.save(path, posterior)

    def change(header, parts):
        body = dict(map(tuple, ((a, b) for a, b in header["content"]["body"]["dict"])))
        name = f"{body['variance']['array']}.npy"
        parts[name] = array_bytes(-np.load(io.BytesIO(parts[name])))

    rewrite(path, change)
    with pytest.raises(jk.DataError, match="variances below zero"):
        jk.load(path)
