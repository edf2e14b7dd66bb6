"""Every change of a network, against its formula written out."""

from copy import deepcopy

import pytest
import torch
from safetensors.torch import load, save
from torch._subclasses.fake_tensor import FakeTensorMode

from fighter.data.windows import Batch, Windows
from fighter.errors import FighterError
from fighter.explain import hop_parts, measure, trace
from fighter.models import ForecastNet, Task, build_core
from paper.studies.changes import CHANGES
from paper.studies.hops import diagnose

LOOKBACK, HORIZON, SERIES, OUTPUTS = 24, 5, 3, 2
ONLY_SERIES = ["no basis", "linear head", "time graph first"]
GIVEN = [
    (change, nodes)
    for nodes in ("series", "patch", "time")
    for change in CHANGES
    if nodes == "series" or change not in ONLY_SERIES
]
NODES = ("series", "patch", "time")
each = pytest.mark.parametrize(("change", "nodes"), GIVEN)
# Every change once, and every kind of node: where the two do not act on each other.
once = pytest.mark.parametrize(
    ("change", "nodes"),
    [
        (change, "series" if change in ONLY_SERIES else NODES[i % 3])
        for i, change in enumerate(CHANGES)
    ],
)
every_graph = pytest.mark.parametrize("adjacency", ["lazy", "static", "dynamic", "cosine", "mixed"])


def build(nodes="series", *, seed=0, period=4, normalise=True, model="fighter", **options):
    torch.manual_seed(seed)
    task = Task(LOOKBACK, HORIZON, SERIES, outputs=OUTPUTS, context=2)
    if model == "fighter":
        own = {"series": "lazy", "patch": "cosine", "time": "cosine"}[nodes]
        small = {"width": 16, "heads": 2, "layers": 2, "patch": 8, "adjacency": own, "kappa": 3}
        options = {"nodes": nodes, **small, **options}
    core = build_core(model, task, **options)
    network = ForecastNet(core, period=period, covariates=(0, 1), normalise=normalise)
    if network.cycle is not None:
        network.cycle.profile.data.normal_()
    if network.affine is not None:
        network.affine.factor.data.uniform_(0.5, 2)
        network.affine.shift.data.normal_()
    return network


def batch_of(count=4, missing=False, fake=False):
    draw = torch.empty if fake else torch.randn
    past, future = draw(count, LOOKBACK, SERIES), draw(count, HORIZON, SERIES)
    seen = None
    if missing:
        seen = torch.rand(count, LOOKBACK, SERIES) > 0.3
        seen[0] = False
    start = torch.arange(count) + 2
    known = draw(count, LOOKBACK + HORIZON, SERIES, 1)
    calendar = draw(count, LOOKBACK + HORIZON, 2)
    return Batch(past, future, seen, None, start, None, known, calendar)


def ask(network, batch):
    return network.eval()(batch, batch.start)


# ---- all of them -----------------------------------------------------------------------------


def test_names_of_the_changes():
    assert list(CHANGES) == [
        "no basis", "no normalisation", "no affine", "linear head", "scalar hops", "lazy hops",
        "centred hops", "hop dropout", "feed-forward", "time graph first", "cycle moved",
        "last value",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "nodes", "missing"),
    [
        *((change, nodes, nodes != "series") for change, nodes in GIVEN),
        *((change, "series", True) for change in ONLY_SERIES),
    ],
)
def test_training_step_reaches_every_weight(change, nodes, missing):
    network = CHANGES[change](build(nodes)).train()
    network.core.prepare(torch.rand(LOOKBACK))
    for parameter in network.parameters():  # zeros would block the gradient of what is before
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    before, batch = deepcopy(network.state_dict()), batch_of(32, missing)
    network(batch, batch.start).square().mean().backward()
    torch.optim.AdamW(network.parameters(), 1e-2, weight_decay=0).step()
    for name, parameter in network.named_parameters():
        assert parameter.isfinite().all(), name
        assert not torch.equal(parameter, before[name]), name


@once
def test_changed_network_can_be_saved_and_copied(change, nodes):
    first = CHANGES[change](build(nodes, seed=1))
    again = CHANGES[change](build(nodes, seed=1))
    other = CHANGES[change](build(nodes, seed=2))
    first.core.prepare(torch.rand(LOOKBACK))
    batch = batch_of()
    wanted = ask(first, batch)
    assert not torch.equal(ask(other, batch), wanted)
    other.load_state_dict(load(save(first.state_dict())))
    assert torch.equal(ask(other, batch), wanted)
    again.core.prepare(torch.rand(LOOKBACK))
    again.load_state_dict(first.state_dict())  # the bases too
    twin = deepcopy(first)
    for parameter in first.parameters():
        parameter.data.zero_()
    assert torch.equal(ask(twin, batch), wanted)
    assert torch.equal(ask(again, batch), wanted)


@once
def test_weights_that_stay_are_those_of_the_unchanged_network(change, nodes):
    plain, changed = build(nodes).state_dict(), CHANGES[change](build(nodes)).state_dict()
    kept = [name for name in plain if name in changed]
    assert kept
    for name in kept:
        assert torch.equal(plain[name], changed[name]), name


@each
def test_windows_are_independent_and_missing_values_have_no_effect(change, nodes):
    network, batch = CHANGES[change](build(nodes)), batch_of(missing=True)
    together = ask(network, batch)
    alone = Batch(*(None if part is None else part[1:2] for part in batch))
    torch.testing.assert_close(ask(network, alone), together[1:2], rtol=1e-4, atol=1e-5)
    hidden = batch._replace(past=torch.where(batch.past_observed, batch.past, 1e6))
    assert torch.equal(ask(network, hidden), together)


@once
def test_no_operation_depends_on_a_value(change, nodes):
    """A network that reads a value on the CPU would make a GPU wait."""
    with FakeTensorMode(), torch.autocast("cpu", torch.bfloat16):
        network, batch = CHANGES[change](build(nodes)).train(), batch_of(fake=True)
        network(batch, batch.start).float().sum().backward()


@each
def test_changed_core_can_be_explained(change, nodes):
    core = CHANGES[change](build(nodes)).core.double().eval()
    x = torch.randn(LOOKBACK, SERIES, dtype=torch.float64)
    found = trace(core, core, x, lambda y: y[2, 1, 0])
    total = found.inputs.sum() + found.constant
    torch.testing.assert_close(total, core(x[None])[0, 2, 1, 0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("change", ONLY_SERIES)
@pytest.mark.parametrize("nodes", ["patch", "time"])
def test_some_changes_need_series_as_nodes(change, nodes):
    with pytest.raises(FighterError, match=f"over {nodes} .* needs series"):
        CHANGES[change](build(nodes))


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        *((name, {"kappa": 1}, "needs a κ of at least 2") for name in CHANGES if "hop" in name),
        *(
            (name, {"model": "linear"}, "needs the model fighter")
            for name in ["no basis", "feed-forward"]
        ),
        ("no normalisation", {"normalise": False}, "not normalised by their mean"),
        ("last value", {"normalise": False}, "not normalised$"),
        ("no affine", {"normalise": False}, "no factor and shift"),
        ("cycle moved", {"period": None}, "needs a period"),
    ],
)
def test_change_without_an_effect_is_refused(change, options, words):
    with pytest.raises(FighterError, match=words):
        CHANGES[change](build(**options))


def test_changes_that_exclude_each_other_are_refused():
    with pytest.raises(FighterError, match="not normalised by their mean"):
        CHANGES["no normalisation"](CHANGES["last value"](build()))
    with pytest.raises(FighterError, match="before hop dropout"):
        CHANGES["scalar hops"](CHANGES["hop dropout"](build()))
    with pytest.raises(FighterError, match="feed-forward networks already"):
        CHANGES["feed-forward"](CHANGES["feed-forward"](build()))


def test_changes_can_be_combined():
    network, batch = build(), batch_of()
    for name in set(CHANGES) - {"last value", "no normalisation", "no affine"}:
        if name not in ("scalar hops", "hop dropout"):
            network = CHANGES[name](network)
    network = CHANGES["hop dropout"](CHANGES["scalar hops"](network))
    assert ask(network, batch).isfinite().all()
    assert diagnose(network, windows())["hop 2 share"] > 0


# ---- the frame -------------------------------------------------------------------------------


def test_no_normalisation_leaves_windows_as_they_are():
    network, batch = build(), batch_of()
    wanted = ForecastNet(network.core, period=4, covariates=(0, 1), normalise=False)
    wanted.cycle, wanted.covariates = network.cycle, network.covariates
    assert torch.equal(ask(CHANGES["no normalisation"](network), batch), ask(wanted, batch))


def test_no_affine_is_factor_one_and_shift_zero():
    network, batch = build(), batch_of()
    network.affine.factor.data.fill_(1)
    network.affine.shift.data.fill_(0)
    wanted = ask(network, batch)
    changed = CHANGES["no affine"](network)
    torch.testing.assert_close(ask(changed, batch), wanted)
    assert not any("affine" in name for name in changed.state_dict())


def test_moved_cycle_is_in_the_units_of_the_data():
    """Adding a profile to the data and to the cycle adds it to the forecast, and nothing else."""

    def answer(network):
        batch = batch_of()
        first = ask(network, batch)
        profile = torch.randn(4, SERIES)
        steps = batch.start[:, None] + torch.arange(LOOKBACK + HORIZON)
        before, after = profile[steps % 4].split([LOOKBACK, HORIZON], 1)
        network.cycle.profile.data += profile
        moved = ask(network, batch._replace(past=batch.past + before))
        return moved - first, after[..., None].expand_as(first)

    torch.testing.assert_close(*answer(CHANGES["cycle moved"](build())), rtol=1e-4, atol=1e-5)
    found, wanted = answer(build())
    assert not torch.allclose(found, wanted, rtol=1e-2, atol=1e-2)


def test_moved_cycle_without_a_profile_has_no_effect():
    network, batch = build(), batch_of(missing=True)
    network.cycle.profile.data.zero_()
    wanted = ask(network, batch)
    torch.testing.assert_close(ask(CHANGES["cycle moved"](network), batch), wanted)


def test_last_value_is_the_last_observed_one():
    network, batch = build(), batch_of(missing=True)
    wanted_std = network.window(batch, batch.start).std
    z, _, _, last, std, *_ = CHANGES["last value"](network).window(batch, batch.start)
    assert torch.equal(std, wanted_std)
    for b in range(4):
        for n in range(SERIES):
            seen = batch.past[b, batch.past_observed[b, :, n], n]
            assert last[b, 0, n] == (seen[-1] if len(seen) else 0)
    torch.testing.assert_close(z * std + last, batch.past)
    whole = batch._replace(past_observed=None)
    assert torch.equal(network.window(whole, batch.start).centre, batch.past[:, -1:])


# ---- the core --------------------------------------------------------------------------------


def test_no_basis_leaves_the_identity():
    correlation = 0.9 ** torch.arange(LOOKBACK)
    for network, steps in ((build(), False), (CHANGES["no basis"](build()), True)):
        network.core.prepare(correlation)
        assert torch.equal(network.core.basis, torch.eye(HORIZON)) == steps
        assert torch.equal(network.core.embed.basis, torch.eye(LOOKBACK)) == steps


def test_linear_head_is_linear():
    core = CHANGES["linear head"](build()).core.eval()
    x, y = torch.randn(2, 1, SERIES, 16)
    both = core.readout(x + y, SERIES) + core.readout(0 * x, SERIES)
    separate = core.readout(x, SERIES) + core.readout(y, SERIES)
    torch.testing.assert_close(both, separate)
    assert [tuple(p.shape) for p in core.head.parameters()] == [(10, 16), (10,)]


def test_time_graph_first_adds_a_graph_over_patches_to_the_embedding():
    core, plain = CHANGES["time graph first"](build()).core.eval(), build().core.eval()
    x = torch.randn(2, SERIES, LOOKBACK)
    inner = core.embed.time
    (layer,) = inner.encoder.layers
    assert (layer.powers, layer.adjacency.temperature is None) == ((0, 1), False)
    patches = torch.stack([x[..., i : i + 16] for i in (0, 8)], 2)  # [2, N, 2, 16]
    nodes = inner.embed(patches).flatten(0, 1) + inner.position
    said = inner.head(layer(nodes).flatten(1)).unflatten(0, (2, SERIES))
    torch.testing.assert_close(core.embed(x), plain.embed(x) + said)
    correlation = 0.9 ** torch.arange(LOOKBACK)
    core.prepare(correlation)
    plain.prepare(correlation)
    assert torch.equal(core.embed.basis, plain.embed.basis)


# ---- the layers ------------------------------------------------------------------------------


def layers_of(change, **options):
    """Return the first layer before and after a change, and an input."""
    plain, changed = build(**options), CHANGES[change](build(**options))
    layers = [net.core.double().eval().encoder.layers[0] for net in (plain, changed)]
    return *layers, torch.randn(2, SERIES, 16, dtype=torch.float64)


def with_graph(layer, x, graph):
    """Compute the layer's formula with explicit matrices."""
    blocks = layer.blocks(layer.norm(x))
    sums = sum(
        torch.linalg.matrix_power(graph, power) @ block
        for power, block in zip(layer.powers, blocks, strict=True)
    )
    return x + layer.activation(sums.transpose(1, 2).flatten(2) + layer.bias)


@every_graph
@pytest.mark.parametrize("powers", [(0, 1, 2), (1, 3)])
def test_lazy_and_centred_hops_follow_their_formula(adjacency, powers):
    for change in ("lazy hops", "centred hops"):
        plain, changed, x = layers_of(change, adjacency=adjacency, powers=powers)
        a, eye = plain.graph(x), torch.eye(SERIES, dtype=torch.float64)
        ones = torch.ones(SERIES, SERIES, dtype=torch.float64)
        wanted = (eye + a) / 2 if change == "lazy hops" else a - ones @ a / SERIES
        torch.testing.assert_close(changed.graph(x), wanted)
        torch.testing.assert_close(changed(x), with_graph(plain, x, wanted))
        assert not torch.allclose(changed(x), plain(x))
        with pytest.raises(FighterError, match="mask"):
            changed(x, causal=True)


@every_graph
def test_scalar_hops_are_multiples_of_one_matrix(adjacency):
    plain, changed, x = layers_of("scalar hops", adjacency=adjacency, kappa=4)
    values = changed.values
    assert values.scalars[..., 0].T.tolist() == [[1, 1, 0.25, 0.25]] * 2  # a row for each head
    values.scalars.data.normal_()
    with torch.no_grad():
        rows = [
            values.scalars[hop, head] * values.shared.weight[8 * head : 8 * head + 8]
            for hop in range(4)
            for head in range(2)
        ]
        plain.values.weight.copy_(torch.cat(rows))
    torch.testing.assert_close(changed(x), plain(x))
    for hop in range(4):
        torch.testing.assert_close(changed.weight(hop), plain.weight(hop))
    before, after = (sum(p.numel() for p in layer.parameters()) for layer in (plain, changed))
    assert before - after == 3 * 16 * 16 - 4 * 2


@pytest.mark.parametrize("nodes", NODES)
def test_hop_dropout_acts_in_training_only(nodes):
    plain, changed, batch = build(nodes), CHANGES["hop dropout"](build(nodes)), batch_of()
    assert torch.equal(ask(changed, batch), ask(plain, batch))
    assert torch.equal(
        changed.core.encoder.layers[0].weight(1), plain.core.encoder.layers[0].weight(1)
    )


@pytest.mark.parametrize("powers", [(0, 1, 2), (1, 3)])
def test_hop_dropout_drops_whole_hops_and_keeps_the_mean(powers):
    plain, changed, _ = layers_of("hop dropout", powers=powers)
    t = torch.randn(1, SERIES, 16, dtype=torch.float64).expand(20_000, -1, -1)
    whole = plain.values(t[:1]).chunk(len(powers), -1)
    found = changed.values.train()(t).chunk(len(powers), -1)
    fates = []
    for power, block, full in zip(powers, found, whole, strict=True):
        factor = block / full
        assert torch.allclose(factor, factor[:, :1, :1])  # the same for every node and column
        fates.append(factor[:, 0, 0])
        if power == 0:
            torch.testing.assert_close(block, full.expand_as(block))
            continue
        dropped = factor[:, 0, 0] == 0
        torch.testing.assert_close(factor[~dropped], torch.full_like(factor[~dropped], 1 / 0.9))
        assert abs(dropped.double().mean() - 0.1) < 0.01
        torch.testing.assert_close(block.mean(0), full[0], rtol=0.02, atol=0)
    both = ((fates[-1] == 0) & (fates[-2] == 0)).double().mean()
    assert both == pytest.approx(0 if powers[-2] == 0 else 0.01, abs=0.004)  # independent


@pytest.mark.parametrize("nodes", ["series", "patch", "time"])
def test_feed_forward_follows_each_layer(nodes):
    plain, changed = build(nodes).core.eval(), CHANGES["feed-forward"](build(nodes)).core.eval()
    x = torch.randn(2, {"series": SERIES, "patch": 3, "time": LOOKBACK}[nodes], 16)
    y = x
    for layer, fed in zip(plain.encoder.layers, changed.encoder.layers, strict=True):
        norm, first, _, second, _ = fed.feed
        assert first.weight.shape == (32, 16)
        y = layer(y)
        y = y + second(torch.nn.functional.gelu(first(norm(y))))
    torch.testing.assert_close(changed.encoder(x), y)
    torch.testing.assert_close(changed.encoder.graphs(x)[0], plain.encoder.graphs(x)[0])


# ---- diagnostics -----------------------------------------------------------------------------


def windows(count=40):
    rows = torch.randn(LOOKBACK + HORIZON + count - 1, SERIES)
    known, calendar = torch.randn(len(rows), SERIES, 1), torch.randn(len(rows), 2)
    return Windows.over(rows, None, LOOKBACK, HORIZON, future_covariates=known, calendar=calendar)


@pytest.mark.parametrize(
    ("nodes", "change"),
    [
        ("series", None),
        ("patch", None),
        ("time", None),
        ("series", "scalar hops"),
        ("patch", "centred hops"),
        ("time", "hop dropout"),
    ],
)
def test_diagnose_returns_plain_numbers(nodes, change):
    network = build(nodes)
    network = (network if change is None else CHANGES[change](network)).eval()
    data = windows()
    found = diagnose(network, data)
    each = [f"hop {i} {what}" for i in (1, 2) for what in ("share", "dispersion", "redundancy")]
    assert list(found) == ["spectral gap", *each]
    assert all(type(number) is float for number in found.values())
    assert diagnose(network, data) == found
    assert not network.core.encoder.layers[0]._forward_pre_hooks


def test_diagnose_is_the_mean_over_layers_and_heads():
    network, data = build().eval(), windows(8)
    batch, inputs = data.gather(torch.arange(8)), []
    first, second = network.core.encoder.layers
    for layer in (first, second):
        layer.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    network(batch, batch.start + 3)
    pairs = zip((first, second), inputs, strict=True)  # with the part that stays
    tables = [measure(hop_parts(layer, x, staying=True)).table() for layer, x in pairs]
    rows = [row for table in tables for row in table]
    found = diagnose(network, data, start_step=3)
    for name, key, power in [
        ("hop 2 share", "norm_share", 2),
        ("hop 1 dispersion", "dispersion", 1),
        ("hop 2 redundancy", "redundancy", 1),  # the table compares with the next hop
        ("spectral gap", "spectral_gap", 0),
    ]:
        wanted = [row[key] for row in rows if row["power"] == power]
        assert found[name] == pytest.approx(sum(wanted) / 4, rel=1e-5)
    assert diagnose(network, data) != found


def test_diagnose_recognises_copies():
    network = build(layers=1, adjacency="static")
    (layer,) = network.core.encoder.layers
    layer.adjacency.logits.data.zero_()  # all rows are equal: A² = A
    found = diagnose(network, windows())
    assert "hop 2 redundancy" not in found  # nothing that could be alike is left
    assert found["hop 2 dispersion"] == pytest.approx(0, abs=1e-5)
    assert found["spectral gap"] == pytest.approx(1, abs=1e-5)
    layer.adjacency.logits.data.copy_(10 * torch.eye(SERIES).roll(1, 0) - 5)  # a ring
    ring = diagnose(network, windows())
    assert ring["hop 2 redundancy"] < 0.9
    assert ring["hop 2 dispersion"] == pytest.approx(1, abs=1e-4)
    assert ring["spectral gap"] == pytest.approx(0, abs=1e-4)
    layer.values.weight.data.unflatten(0, (3, -1))[2].zero_()
    assert diagnose(network, windows())["hop 2 share"] == 0
    assert 0 < diagnose(network, windows())["hop 1 share"] < 1


def test_diagnose_is_empty_without_hops():
    assert diagnose(build(kappa=1), windows()) == {}
    assert diagnose(build(model="itransformer", width=16, heads=2), windows()) == {}
    assert diagnose(build(powers=(1, 2)), windows()).keys() >= {"hop 1 share", "hop 2 redundancy"}
    assert "hop 1 redundancy" not in diagnose(build(powers=(1, 2)), windows())


def test_members_are_changed_independently_or_not_at_all():
    network = CHANGES["linear head"](build(members=2)).eval()
    batch = batch_of()
    per_member = network(batch, batch.start, per_member=True)
    torch.testing.assert_close(per_member.mean(0), network(batch, batch.start))
    network.core.head.weight.data[1] *= 2
    changed = network(batch, batch.start, per_member=True)
    assert torch.equal(changed[0], per_member[0])
    assert not torch.equal(changed[1], per_member[1])
    for change in ("scalar hops", "hop dropout", "feed-forward"):
        with pytest.raises(FighterError, match="single member"):
            CHANGES[change](build(members=2))
