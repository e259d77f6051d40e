"""Django: whoever is logged in streams at /llm. Below `identify` it is what an asgi.py holds."""

import os
from io import BytesIO

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from seseragi import create_app
from starlette.applications import Starlette
from starlette.routing import Mount

if not settings.configured:  # yours: os.environ.setdefault("DJANGO_SETTINGS_MODULE", ...)
    settings.configure(
        SECRET_KEY=os.environ["SECRET_KEY"],
        ALLOWED_HOSTS=["localhost", "127.0.0.1"],
        ROOT_URLCONF="django_urls",
        INSTALLED_APPS=[f"django.contrib.{n}" for n in ("contenttypes", "auth", "sessions")],
        MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "users.db"}},
    )
django = get_asgi_application()

from django.contrib.auth import get_user  # noqa: E402  (Django has to be set up)
from django.contrib.sessions.middleware import SessionMiddleware  # noqa: E402
from django.core.handlers.asgi import ASGIRequest  # noqa: E402
from django.db import close_old_connections  # noqa: E402

sessions = SessionMiddleware(lambda request: None)


@sync_to_async
def identify(scope) -> str | None:
    close_old_connections()  # as Django does before each request of its own
    request = ASGIRequest(scope, BytesIO())
    sessions.process_request(request)
    user = get_user(request)
    return str(user.pk) if user.is_authenticated else None  # None: 401


relay = create_app(identify=identify)
app = Starlette(routes=[Mount("/llm", relay), Mount("/", django)], lifespan=relay.lifespan)
