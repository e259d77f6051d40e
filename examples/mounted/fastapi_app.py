"""FastAPI: whoever is logged in streams at /llm, and owns the streams they start."""

import os
import time
from collections.abc import Mapping

import jwt
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel
from seseragi import create_app

SECRET = os.environ["SECRET_KEY"]
PASSWORDS = {"ada": "lovelace", "grace": "hopper"}  # your own users


def user_of(cookies: Mapping[str, str]) -> str | None:
    """Return who is logged in, for `identify` and for your own routes."""
    try:
        claims = jwt.decode(cookies.get("session", ""), SECRET, ["HS256"])
    except jwt.InvalidTokenError:
        return None
    return str(claims["sub"])


async def identify(scope) -> str | None:
    return user_of(Request(scope).cookies)  # None: 401


relay = create_app(identify=identify)
app = FastAPI(lifespan=relay.lifespan)
app.mount("/llm", relay)


class Login(BaseModel):
    user: str
    password: str


@app.post("/login", status_code=204)
async def login(form: Login, response: Response) -> None:
    if PASSWORDS.get(form.user) != form.password:
        raise HTTPException(401)
    session = jwt.encode({"sub": form.user, "exp": time.time() + 86_400}, SECRET, "HS256")
    response.set_cookie("session", session, httponly=True, samesite="lax")
