"""`[[route]]` tables: what they mean."""

import pytest

from app.composition import build_upstreams
from app.errors import RequestError
from app.settings import Settings, SettingsError, load_settings

pytestmark = pytest.mark.pure

UPSTREAMS = """
[upstream.a]
base_url = "http://a.example/v1"
[upstream.b]
base_url = "http://b.example/v1"
"""


@pytest.fixture
def load(tmp_path):
    def load(routes: str, **environ: str) -> Settings:
        config = tmp_path / "x.toml"
        config.write_text(UPSTREAMS + routes)
        return load_settings({"SESERAGI_CONFIG": str(config), **environ})

    return load


def test_names_are_targets_in_the_order_of_the_list(load):
    (route,) = load('[[route]]\nname = "fast"\ntargets = ["a/x", "b/y/z"]\n').routes

    assert ("fast", None) == (route.name, route.budget_s)
    assert ["a/x", "b/y/z"] == [target.name for target in route.targets]
    assert [(1, 2), (2, 2)] == [(t.policy.order, t.policy.attempts) for t in route.targets]


def test_tables_say_how_a_target_takes_part(load):
    (route,) = load(
        """
        [[route]]
        name = "fast"
        attempts = 3
        budget_s = 20
        targets = [
          { model = "a/x", weight = 3 },
          { model = "b/x", weight = 0.5, attempts = 1 },
          { model = "a/y", idle_timeout_s = 5, connect_timeout_s = 1 },
          { model = "b/y", order = 2 },
        ]
        """
    ).routes
    choices = [target.policy for target in route.targets]

    assert 20 == route.budget_s
    assert [(1, 3), (1, 0.5), (3, 1), (2, 1)] == [(c.order, c.weight) for c in choices]
    assert [3, 1, 3, 3] == [choice.attempts for choice in choices]
    assert {"idle_timeout_s": 5, "connect_timeout_s": 1} == route.targets[2].timeouts


def test_the_demo_may_stand_in(load):
    (route,) = load('[[route]]\nname = "r"\ntargets = ["a/x", "demo/demo"]\n').routes

    assert "demo/demo" == route.targets[1].name


def test_a_route_to_the_demo_needs_the_demo(load):
    with pytest.raises(SettingsError, match="'demo/demo': unknown upstream"):
        load('[[route]]\nname = "r"\ntargets = ["demo/demo"]\n', SESERAGI_DEMO="false")


def test_a_route_to_a_demo_model_that_is_none_is_named(load):
    with pytest.raises(SettingsError, match="has no model 'nope'; models: demo, "):
        load('[[route]]\nname = "r"\ntargets = ["demo/nope"]\n')


def test_nothing_to_serve_is_no_setting(load):
    with pytest.raises(SettingsError, match="passthrough: it is false"):
        build_upstreams(load("", SESERAGI_PASSTHROUGH="false", SESERAGI_DEMO="false"), None)


def test_the_demo_is_no_default_beside_a_provider(load):
    upstreams = build_upstreams(load(""), None)
    with pytest.raises(RequestError, match="model: name one of 'demo'"):
        upstreams.resolve(None)


def test_the_default_model_may_be_a_route(load):
    routes = '[[route]]\nname = "r"\ntargets = ["a/x"]\n[[route]]\nname = "s"\ntargets = ["b/x"]\n'
    upstreams = build_upstreams(load(routes, SESERAGI_DEFAULT_MODEL="s"), None)
    assert "b/x" == upstreams.resolve(None).targets[0].name
    upstreams = build_upstreams(load(routes), None)
    assert "a/x" == upstreams.resolve(None).targets[0].name


def test_without_passthrough_only_routes_are_known(load):
    routes = '[[route]]\nname = "r"\ntargets = ["a/x"]\n'
    upstreams = build_upstreams(load(routes, SESERAGI_PASSTHROUGH="false"), None)
    with pytest.raises(RequestError, match="models: 'r', 'demo'"):
        upstreams.resolve("a/x")
    with pytest.raises(SettingsError, match="default_model"):
        build_upstreams(
            load(routes, SESERAGI_PASSTHROUGH="false", SESERAGI_DEFAULT_MODEL="a/x"), None
        )
