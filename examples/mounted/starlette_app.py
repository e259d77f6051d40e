"""Starlette: the user of AuthenticationMiddleware streams at /llm, and owns what they start."""

import secrets

from seseragi import Caller, create_app
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

PASSWORDS = {"ada": "lovelace", "grace": "hopper"}  # your own users
SESSIONS: dict[str, str] = {}  # your own store


class Sessions(AuthenticationBackend):
    async def authenticate(self, conn):
        name = SESSIONS.get(conn.cookies.get("session", ""))
        return (AuthCredentials(["authenticated"]), SimpleUser(name)) if name else None


async def identify(scope) -> Caller | None:
    user = scope["user"]
    if not user.is_authenticated:
        return None  # 401
    return Caller(user.username, models=["demo"], admin=user.username == "ada")


async def login(request: Request) -> Response:
    form = await request.json()
    if PASSWORDS.get(form["user"]) != form["password"]:
        return Response(status_code=401)
    session, response = secrets.token_urlsafe(), Response(status_code=204)
    SESSIONS[session] = form["user"]
    response.set_cookie("session", session, httponly=True, samesite="lax")
    return response


relay = create_app(identify=identify)
app = Starlette(
    routes=[Route("/login", login, methods=["POST"]), Mount("/llm", relay)],
    middleware=[Middleware(AuthenticationMiddleware, backend=Sessions())],
    lifespan=relay.lifespan,
)
