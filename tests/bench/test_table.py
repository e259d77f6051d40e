"""What the benchmark prints and how it is started."""

import pytest

from bench import table
from bench.__main__ import main
from bench.measures import Row
from bench.relays import VARIANTS, Relay, peer
from tests.needs import program


def row(name, **rounds):
    return Row(Relay(name), rounds={key: list(values) for key, values in rounds.items()})


def cells(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_the_table_has_medians_and_ratios_to_nginx():
    text = table.render([row("nginx", dense_us=[10, 30, 20]), row("ours", dense_us=[41, 40, 100])])

    assert ["", "nginx", "ours"] == cells(text.splitlines()[0])
    assert ["dense, us/token", "20.0 (1.00x)", "41.0 (4.10x)"] == cells(text.splitlines()[2])


def test_a_ratio_is_that_of_the_rounds_that_ran_side_by_side():
    rows = [row("a", flood_us=[10, 20, 40]), row("b", flood_us=[20, 40, 80])]

    assert "2.00x" in table.render(rows, "a")
    rows[1].rounds["flood_us"].pop()  # a round went wrong
    assert "1.50x" in table.render(rows, "a")


def test_figures_are_written_with_all_their_rounds():
    written = table.as_json(row("a", dense_us=[3, 1, 2]))

    assert {"dense_us": {"median": 2, "min": 1, "max": 3, "rounds": [3, 1, 2]}} == written[
        "figures"
    ]


def test_a_peer_is_a_name_and_a_command():
    relay = peer("mine=./relay --port {port} --upstream {upstream}")

    assert ("mine", ("./relay", "--port", "{port}", "--upstream", "{upstream}")) == (
        relay.name,
        relay.command,
    )


def test_the_documents_table_has_a_column_a_configuration():
    ours = dict.fromkeys(("dense_us", "idle_kib"), 40.0)
    found = dict.fromkeys(table.COLUMNS, ours) | {"nginx": {"dense_us": 20.0, "tls_dense_us": 30.0}}
    found["seseragi"] = {**ours, "tls_dense_us": 60.0}

    lines = table.summarize(found).splitlines()

    assert ["CPU a token, dense, µs", "20.0", *["40.0 (2.0)"] * 3] == cells(lines[0])
    assert ["memory of an idle stream, KiB", "", *["40"] * 3] == cells(lines[1])
    assert ["CPU a token, dense, µs, over TLS", "30.0", "60.0 (2.0)", *[""] * 2] == cells(lines[-1])


def test_logs_stand_beside_memory():
    figures = {figure: 10.0 for _, figure, _ in (*table.COST, *table.DELAYS)}
    found = dict.fromkeys(table.LOGS, figures)
    found["seseragi, redis"] = {**figures, "dense_us": 11.0, "light_p50_ms": 12.0}

    lines = table.summarize_logs(found).splitlines()

    assert ["CPU a token, dense, µs", "10.0", "× 1.00", "× 1.10"] == cells(lines[0])
    assert ["10.00", "10.00", "12.00"] == cells(lines[3])[1:]


def test_interpreters_stand_beside_the_first_one():
    figures = {figure: 10.0 for _, figure, _ in (*table.COST, *table.MEMORY)}
    found = {"a": figures, "b": {**figures, "dense_us": 9.0}, "nginx": {}}

    assert ["CPU a token, dense, µs", "10.0", "× 0.90"] == cells(
        table.summarize_pythons(found).splitlines()[0]
    )


def test_every_configuration_is_a_peer():
    program("redis-server")
    for name in VARIANTS:
        assert peer(name).ours
        assert not peer(name).over_tls
    assert peer("redis").beside is not None


def test_an_unknown_part_is_named_and_the_parts_listed(capsys):
    assert 2 == main(["--only", "speed"])
    assert "'speed'; parts: import, rest, idle, requests" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["against"], ["table", "HEAD"]])
def test_commits_are_named_to_compare_with_and_nowhere_else(words, capsys):
    assert 2 == main(words)
    assert "commit" in capsys.readouterr().err
