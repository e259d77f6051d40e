"""The npm package: packed from `static/`, installed from its tarball, used, typed and measured."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.programs import run
from tests.clients.shown_code import CONVERSATION, write_code
from tests.needs import file, program
from tests.serving import serve_relay

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "static"
MODULES = ROOT / "node_modules"
USER = Path(__file__).parent / "package"

PACKAGE = json.loads((STATIC / "package.json").read_text())
PARTS = {
    "ids.js",
    "kept.js",
    "shared.js",
    "tabs.js",
    "turns.js",
    "watch.js",
}  # of others: imported by them alone
ENTRIES = [f"seseragi{entry[1:]}" for entry in PACKAGE["exports"] if not entry.endswith(".json")]
PEERS = [*PACKAGE["peerDependencies"], "@types", "json-schema", "@ai-sdk", "csstype"]

DOCUMENT = ROOT / "docs" / "javascript.md"
DOCUMENTED = re.compile(r"^```(tsx?)\n(.*?)^```", re.DOTALL | re.MULTILINE)

CLIENT = "import { cancel, chat, resume, resumeFrom } from 'seseragi'; console.log(cancel, chat, resume, resumeFrom);"
HOOK = "import { useChat } from 'seseragi/react'; console.log(useChat);"

# As on a server and in a worker: nothing of a page is there.
IMPORTS = f"""
for (const name of ['window', 'document', 'localStorage', 'sessionStorage', 'BroadcastChannel'])
  Object.defineProperty(globalThis, name, {{ get() {{ throw new Error(`${{name}} at import`); }} }});
const found = [];
for (const entry of {ENTRIES}) found.push(...Object.keys(await import(entry)));
console.log(found.join(' '));
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has installed the tarball; what it may use beside it is linked."""
    npm = program("npm")
    modules = compiler().parents[1]
    folder = tmp_path_factory.mktemp("project")
    pack = (npm, "pack", "--silent", "--pack-destination", folder, STATIC)
    tarball = subprocess.run(pack, check=True, capture_output=True, text=True).stdout.split()[-1]
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    quiet = ("--offline", "--no-audit", "--no-fund", "--omit=peer", "--silent")
    subprocess.run((npm, "install", *quiet, folder / tarball), cwd=folder, check=True)
    for peer in PEERS:
        link = folder / "node_modules" / peer
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(modules / peer)
    return folder


def compiler() -> Path:
    """Return TypeScript's."""
    program("node")
    how = "run npm ci --prefix tests/clients/package"
    return file(USER / "node_modules" / ".bin" / "tsc", how=how)


def bundle(code: str, folder: Path) -> bytes:
    """Return the code with what it needs of the package, minified, as a page's build has it."""
    esbuild = file(MODULES / ".bin" / "esbuild", how="run npm ci")
    external = [f"--external:{peer}" for peer in PACKAGE["peerDependencies"]]
    words = [str(esbuild), "--bundle", "--minify", "--format=esm", "--target=es2022", *external]
    # A module of Node.js would not be found: it is built for browsers.
    return subprocess.run(
        words, input=code.encode(), cwd=folder, capture_output=True, check=True
    ).stdout


def test_tarball_has_the_modules_and_their_types_and_nothing_of_the_page(project):
    installed = project / "node_modules" / "seseragi"
    modules = {
        f"{name}{end}"
        for entry in ENTRIES
        for name in [entry.removeprefix("seseragi/")]
        for end in (".js", ".d.ts")
    }
    assert modules | PARTS | {"README.md", "LICENSE", "package.json"} == {
        path.name for path in installed.iterdir()
    }
    for entry in PACKAGE["exports"].values():
        for path in entry.values() if isinstance(entry, dict) else [entry]:
            assert (installed / path).is_file()


def test_every_entry_is_imported_where_there_is_no_page(project):
    (project / "imports.mjs").write_text(IMPORTS)
    done = subprocess.run(
        ("node", "imports.mjs"), cwd=project, capture_output=True, text=True, check=False
    )

    assert "" == done.stderr
    expected = {"chat", "useChat", "ChatStore", "SeseragiChatTransport", "SeseragiAgent"}
    assert expected < set(done.stdout.split())


def test_examples_and_documents_hold_under_the_strictest_types(project):
    shutil.copytree(USER / "examples", project / "examples")
    shutil.copy(USER / "tsconfig.json", project)
    for number, (kind, code) in enumerate(DOCUMENTED.findall(DOCUMENT.read_text())):
        (project / "examples" / f"documented{number}.{kind}").write_text(code)
    shown = write_code(CONVERSATION, "https://relay.example/", keyed=True, model="demo")
    (project / "examples" / "shown.ts").write_text(shown["fetch"])
    done = subprocess.run(
        (compiler(), "-p", "."), cwd=project, capture_output=True, text=True, check=False
    )

    # Declarations are checked too: ours have to hold, others' are their own matter.
    errors = [line for line in done.stdout.splitlines() if re.match(r"\S+\(\d+,\d+\): error", line)]
    assert [] == [line for line in errors if "node_modules/" not in line or "seseragi" in line]


def test_modules_of_the_page_hold_under_the_strictest_types():
    options = "--noEmit --allowJs --checkJs --strict --skipLibCheck --target esnext --module esnext"
    libraries = "--moduleResolution bundler --lib esnext,dom,dom.iterable,dom.asynciterable"
    done = subprocess.run(
        (
            compiler(),
            *options.split(),
            *libraries.split(),
            "--types",
            "",
            STATIC / "chat.js",
            STATIC / "chat" / "show.js",
            STATIC / "docs.js",
        ),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ("", 0) == (done.stdout, done.returncode)


def test_client_has_at_most_6_kib_and_a_half_and_the_hook_7_kb_and_a_half_more(project):
    client, hook = (len(gzip.compress(bundle(code, project), 9)) for code in (CLIENT, HOOK))

    assert client <= 6500
    assert hook - client <= 7500  # what tabs and devices share is 2 KB


def test_what_is_not_used_is_not_bundled(project):
    unused = "".join(f"import '{entry}';" for entry in ENTRIES)
    assert b"" == bundle(unused, project).strip()
    assert (
        len(
            bundle(
                "import { parsePartial } from 'seseragi/partial-json'; parsePartial('');", project
            )
        )
        < 2000
    )


async def test_parts_and_messages_are_those_that_the_relay_says():
    node = program("node")
    models = ("demo", "demo-reasoning", "demo-tools")
    async with serve_relay(demo_pace=0) as relay:
        script = Path(__file__).parent / "parts.mjs"
        assert "the same\n" == await run(node, script, relay.url, *models, quiet=True)
