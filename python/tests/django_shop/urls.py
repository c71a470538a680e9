"""The shop's pages."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.urls import path

from django_shop.models import Item


def item(_request: HttpRequest, key: int) -> JsonResponse:
    return JsonResponse({"name": Item.objects.get(pk=key).name})


urlpatterns = [path("items/<int:key>", item)]
