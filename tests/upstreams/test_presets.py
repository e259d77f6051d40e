"""What is known of providers: rows that can be used, and documents that say the same."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.settings import load_settings
from app.settings.access import settle_identity
from app.settings.upstreams import check_headers
from app.upstreams.presets import PLACES, PRESETS

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROVIDERS = ROOT / "docs/providers"

KEYS = {
    variable: "sk-0123456789abcdef" for preset in PRESETS.values() for variable in preset.key_env
}
VALUES = {variable: "x-1" for variables in PLACES.values() for variable in variables}
EVERYTHING = {**KEYS, **VALUES, "DATABRICKS_HOST": "dbc-1.cloud.databricks.com"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_empty_tables_are_enough_with_the_variables_set(tmp_path):
    (tmp_path / "seseragi.toml").write_text("".join(f"[upstream.{name}]\n" for name in PRESETS))
    settings = load_settings(EVERYTHING)
    urls = {upstream.name: upstream.base_url for upstream in settings.upstreams}

    assert set(PRESETS) == set(urls)
    for url in urls.values():
        assert url.startswith(("https://", "http://127.0.0.1:"))
        assert not re.search(r"{(?!model})", url)
    assert "sk-0123456789abcdef" not in repr(settings)


def test_presets_speak_dialects_with_their_quirks_to_urls_of_https_or_of_this_machine():
    for preset in PRESETS.values():
        msgspec.convert(dict(preset.quirks), UPSTREAM_FORMATS[preset.dialect].quirks)
        assert preset.headers == check_headers(preset.headers, "preset")
        own = r"https://|http://127\.0\.0\.1:\d+(/v1)?$"
        assert preset.base_url is None or re.match(own, preset.base_url)


def test_no_two_presets_are_added_by_one_variable():
    """A key must not list every model twice."""
    seen = [
        variable
        for preset in PRESETS.values()
        if preset.added_by not in ("table", "URL")
        for variable in preset.key_env
    ]

    assert len(seen) == len(set(seen))


SHARED = [
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "HF_TOKEN"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    *("NVIDIA_API_KEY", "DATABRICKS_HOST", "DATABRICKS_TOKEN", "SNOWFLAKE_ACCOUNT"),
    *("OLLAMA_API_KEY", "ANTHROPIC_BASE_URL", "AZURE_OPENAI_API_KEY"),
]


@pytest.mark.parametrize("variable", SHARED)
def test_variable_that_is_set_for_other_reasons_adds_nothing(variable):
    assert () == load_settings({variable: "https://x.example"}).upstreams


def test_index_of_providers_has_a_row_for_each_preset():
    """Run `python -m tests.upstreams.test_presets` for the rows."""
    index = (PROVIDERS / "README.md").read_text(encoding="utf-8")

    assert [] == [name for name in PRESETS if row(name) not in index.splitlines()]


def test_each_preset_has_a_page_or_a_place_in_that_of_the_hosts():
    hosts = (PROVIDERS / "openai-compatible.md").read_text(encoding="utf-8")
    without = [name for name in PRESETS if page(name) == "openai-compatible"]

    assert [] == [
        name for name in without if not re.search(rf"^\| .*`{name}`", hosts, re.MULTILINE)
    ]


def page(name: str) -> str:
    """The page of a family of presets, or else that of the hosts that copy OpenAI's format."""
    own = name.partition("-")[0]
    return own if (PROVIDERS / f"{own}.md").exists() else "openai-compatible"


def row(name: str) -> str:
    preset = PRESETS[name]
    url = f"`{preset.base_url}`" if preset.base_url else ""
    base = f", `{preset.base_url_env}`" if preset.base_url_env else ""
    suffix = f" + `{preset.base_url_suffix}`" if preset.base_url_suffix else ""
    keys = " or ".join(f"`{variable}`" for variable in preset.key_env) or preset.without_key
    default = f"`{preset.default_model}`" if preset.default_model else ""
    cells = (
        f"[`{name}`]({page(name)}.md)",
        preset.title,
        f"`{preset.dialect}`",
        f"{url}{base}{suffix}".removeprefix(", "),
        keys,
        preset.added_by,
        default,
    )
    return f"| {' | '.join(cells)} |"


def blocks() -> list[tuple[str, str]]:
    """The TOML of the documents, each with the name of its file."""
    return [
        (f"{path.name} {number}", block)
        for pattern in ("*.md", "docs/**/*.md", "examples/*/README.md")
        for path in sorted(ROOT.glob(pattern))
        if path.name != "codex.md"  # the settings of Codex
        for number, block in enumerate(
            re.findall(r"```toml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL), start=1
        )
    ]


@pytest.mark.parametrize("block", [block for _, block in blocks()], ids=[name for name, _ in blocks()])  # fmt: skip
def test_toml_of_the_documents_can_be_used(block, tmp_path):
    read = tomllib.loads(block)
    for file in re.findall(r'key_file = "(.*?)"', block):
        here = tmp_path / Path(file).name
        here.write_text("sk-0123456789abcdef")
        block = block.replace(file, here.name)
    (tmp_path / "seseragi.toml").write_text(block)
    (tmp_path / "keys.json").touch(mode=0o600)
    (tmp_path / "keys.json").write_text("{}")
    own = dict.fromkeys(re.findall(r'key_env = "(.*?)"', block), "sk-0123456789abcdef")
    secrets = re.findall(r'secret_env = "(.*?)"', block)
    own |= dict.fromkeys(secrets, "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
    settings = settle_identity(load_settings({**EVERYTHING, **own})).settings

    assert set(read.get("upstream", ())) <= {upstream.name for upstream in settings.upstreams}
    for name in ("key", "issuer"):
        assert len(read.get(name, ())) <= len(getattr(settings.identity, f"{name}s"))


def test_other_host_is_four_lines_of_toml():
    match = re.search(r"<!-- run: host -->\n```toml\n(.*?)```", README, re.DOTALL)

    assert match is not None
    assert 4 == len(match[1].splitlines())


if __name__ == "__main__":
    print("\n".join(row(name) for name in PRESETS))
