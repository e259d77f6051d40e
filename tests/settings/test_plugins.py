"""Parts of other packages, by entry points."""

import sys
from pathlib import Path

import pytest

from app.policies.balance import BALANCES, Balance
from app.settings import SettingsError
from app.settings.plugins import find_part

pytestmark = pytest.mark.pure

GROUP = "seseragi.balances"
GOOD = "from app.policies.balance import Random\nclass Last(Random): pass\n"


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, *, name: str = "last"
) -> None:
    """Install a package with a balance as pip does: a module, and a folder of metadata."""
    info = folder / "last_balance-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: last-balance\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = last_balance:Last\n")
    (folder / "last_balance.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "last_balance", raising=False)


def find(name: str) -> Balance:
    return find_part(name, BALANCES, Balance, group=GROUP, place="route 'r'.balance")


def test_a_package_adds_a_part_and_replaces_none(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, GOOD)
    assert "Last" == type(find("last")).__name__

    (tmp_path / "last_balance-1.0.dist-info/entry_points.txt").write_text(
        f"[{GROUP}]\nrandom = last_balance:Last\n"
    )
    assert BALANCES["random"] is find("random")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ValueError('no licence')", "cannot be loaded: ValueError('no licence')"),
        ("import missing_package", "cannot be loaded: ModuleNotFoundError("),
        ("Last = 3", "cannot be loaded: TypeError("),
        ("class Last: pass", "is not a Balance: make it a subclass of policies.balance.Balance"),
    ],
)
def test_a_part_that_cannot_be_used_is_one_line(code, reason, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, code)
    with pytest.raises(SettingsError) as caught:
        find("last")

    assert f"route 'r'.balance: 'last' (last_balance:Last) {reason}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_installed_parts_are_listed_among_the_known(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, GOOD)
    with pytest.raises(SettingsError) as caught:
        find("lst")

    assert "unknown name 'lst'; did you mean 'last'?; known: affinity, random, " in str(
        caught.value
    )
    assert "latency, last; packages add others by the entry point group" in str(caught.value)
