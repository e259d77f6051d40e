"""Paths of the relay, wherever it is mounted. See ASGI's `root_path`."""

from starlette.types import Scope


def root_of(scope: Scope) -> str:
    """Return the path under which clients see the relay; "" for a server of its own."""
    return str(scope.get("root_path", "")).rstrip("/")


def path_of(scope: Scope) -> str:
    """Return the path of a request within the relay."""
    path, root = str(scope["path"]), root_of(scope)
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path
