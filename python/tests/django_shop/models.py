"""The shop's models."""

from __future__ import annotations

from django.db import models


class Item(models.Model):
    id = models.IntegerField(primary_key=True)
    category = models.IntegerField(null=True)
    name = models.TextField(null=True)
    price = models.DecimalField(null=True, max_digits=9, decimal_places=2)

    class Meta:
        db_table = "items"


class Comment(models.Model):
    id = models.BigAutoField(primary_key=True)
    item = models.ForeignKey(Item, null=True, related_name="comments", on_delete=models.CASCADE)
    author = models.TextField(null=True)
    stars = models.IntegerField(null=True)

    class Meta:
        db_table = "comments"


class Cheap(models.Model):
    """A view."""

    id = models.IntegerField(primary_key=True)
    name = models.TextField(null=True)

    class Meta:
        db_table = "cheap"
        managed = False
