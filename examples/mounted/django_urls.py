"""The URLs of the Django example: a login, as a project of yours has one."""

import json

from django.contrib.auth import authenticate, login
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST


@require_POST
def log_in(request: HttpRequest) -> HttpResponse:
    form = json.loads(request.body)
    user = authenticate(request, username=form["user"], password=form["password"])
    if user is None:
        return HttpResponse(status=401)
    login(request, user)
    return HttpResponse(status=204)


urlpatterns = [path("login", log_in)]
