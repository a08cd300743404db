"""Alerts, their rules and silences (docs/alerts.md)."""

from __future__ import annotations

from django.db.models import QuerySet
from rest_framework.request import Request

from engine.model.page import decode_number, encode_cursor
from txnconsole.access.principal import ALL_TOPICS
from txnconsole.access.requests import principal_of_request
from txnconsole.access.roles import Permission
from txnconsole.alerts import handling, reading, rules
from txnconsole.alerts.models import Alert as StoredAlert
from txnconsole.alerts.models import Rule as StoredRule
from txnconsole.alerts.models import Silence as StoredSilence
from txnconsole.alerts.silencing import HOLDS
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.operation import Call, NoBody, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import page_by_number, page_of
from txnconsole.api.structs.alerts import (
    AcknowledgeAlert,
    Alert,
    AlertPage,
    AlertRule,
    AlertRulePage,
    AlertSilence,
    AlertSilencePage,
    CreateAlertSilence,
    ListAlerts,
    ListAlertSilences,
    PutAlertRule,
)
from txnconsole.api.structs.fields import PageQuery, optional_time


class AlertEndpoint(Endpoint):
    """An address of alerts. Alerts may be about any topic, so a token limited to some topics sees
    none."""

    def initial(self, request: Request, *args: object, **path: int) -> None:
        super().initial(request, *args, **path)
        if principal_of_request(request).topics != ALL_TOPICS:
            self.refuse("Alerts are of all topics; the token is limited to some.")


class Alerts(AlertEndpoint):
    @operation(
        "listAlerts",
        Permission.ALERT_READ,
        Shape(query=ListAlerts, answer=AlertPage),
        summary="List alerts",
    )
    def get(self, call: Call[None, ListAlerts]) -> AlertPage:
        """Newest first: alerts that are pending, fire, or have fired within 90 days.

        When no worker evaluates the rules, the first page of firing alerts has an alert without an
        `id` that says so; nothing else in it is then up to date.
        """
        query = call.query
        alerts = StoredAlert.objects.order_by("-id")
        if query.state is not None:
            alerts = alerts.filter(state=query.state)
        if query.rule is not None:
            alerts = alerts.filter(rule_name=query.rule)
        if query.object is not None:
            alerts = alerts.filter(object=query.object)
        if query.cursor is not None:
            alerts = alerts.filter(id__lt=decode_number(query.cursor, least=1))
        standing = reading.standing()
        unwritten = _unwritten(standing, query)[: query.limit]
        page, next_cursor = _page(alerts, query.limit - len(unwritten))
        return AlertPage(
            items=[*unwritten, *map(Alert.of, page)],
            next_cursor=next_cursor,
            evaluated_at=optional_time(standing.evaluated_at),
        )


def _page(alerts: QuerySet[StoredAlert], room: int) -> tuple[list[StoredAlert], str | None]:
    """As many alerts as there is room for; where there is none, the next page begins with the
    first."""
    found = list(alerts[: room + 1])
    if room == 0 and found:
        return [], encode_cursor(found[0].pk + 1)
    return page_of(found, room, lambda each: each.pk)


def _unwritten(standing: reading.Standing, query: ListAlerts) -> list[Alert]:
    if query.cursor is not None or query.state not in (None, "firing"):
        return []
    return [
        Alert.unwritten(one)
        for one in standing.silent_workers
        if query.rule in (None, one.rule) and query.object in (None, one.object)
    ]


class OneAlert(AlertEndpoint):
    @operation("getAlert", Permission.ALERT_READ, Shape(answer=Alert), summary="Show an alert")
    def get(self, call: Call[None, NoQuery]) -> Alert:
        """Its latest values, and who takes care of it."""
        return Alert.of(handling.find_alert(self.kwargs["alert_id"]))


class AcknowledgementOfAlert(AlertEndpoint):
    @operation(
        "acknowledgeAlert",
        Permission.ALERT_HANDLE,
        Shape(keyed=True, body=AcknowledgeAlert, answer=Alert),
        summary="Acknowledge an alert",
    )
    def post(self, call: Call[AcknowledgeAlert, NoQuery]) -> Alert:
        """Somebody takes care of it, so nobody is reminded of it any more. Only the first
        acknowledgement is kept. An alert that does not fire answers 409 `AlertConflict`."""
        note = call.body.note.strip()
        return Alert.of(handling.acknowledge(self.actor(), self.kwargs["alert_id"], note))


class AlertRules(AlertEndpoint):
    @operation(
        "listAlertRules",
        Permission.ALERT_READ,
        Shape(query=PageQuery, answer=AlertRulePage),
        summary="List alert rules",
    )
    def get(self, call: Call[None, PageQuery]) -> AlertRulePage:
        """In the order in which they were created, each with the number of its alerts that fire."""
        page, next_cursor = page_by_number(rules.with_firing(), call.query, by="id")
        return AlertRulePage(
            items=[_shown(rule) for rule in page],
            next_cursor=next_cursor,
        )

    @operation(
        "createAlertRule",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, body=PutAlertRule, answer=AlertRule, statuses=(201,)),
        summary="Create an alert rule",
    )
    def post(self, call: Call[PutAlertRule, NoQuery]) -> Reply:
        """It is evaluated within seconds. A name that exists already answers 409
        `AlertConflict`."""
        rule = rules.create_rule(self.actor(), call.body.settings())
        return Reply(_shown(rule), 201)


class OneAlertRule(AlertEndpoint):
    @operation(
        "getAlertRule",
        Permission.ALERT_READ,
        Shape(answer=AlertRule),
        summary="Show an alert rule",
    )
    def get(self, call: Call[None, NoQuery]) -> AlertRule:
        """What it measures, its threshold, and who changed it last."""
        return _shown(rules.find_rule(self.kwargs["rule_id"]))

    @operation(
        "putAlertRule",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, body=PutAlertRule, answer=AlertRule),
        summary="Change an alert rule",
    )
    def put(self, call: Call[PutAlertRule, NoQuery]) -> AlertRule:
        """Replaces everything but its kind. The next evaluation applies the new settings to its
        alerts. Alerts of a rule that is switched off are resolved."""
        settings = call.body.settings()
        return _shown(rules.change_rule(self.actor(), self.kwargs["rule_id"], settings))

    @operation(
        "deleteAlertRule",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, statuses=(204,)),
        summary="Delete an alert rule",
    )
    def delete(self, call: Call[NoBody, NoQuery]) -> None:
        """Deletes its silences too. Its alerts are resolved, and stay in the history."""
        rules.delete_rule(self.actor(), self.kwargs["rule_id"])


class AlertSilences(AlertEndpoint):
    @operation(
        "listAlertSilences",
        Permission.ALERT_READ,
        Shape(query=ListAlertSilences, answer=AlertSilencePage),
        summary="List silences of alerts",
    )
    def get(self, call: Call[None, ListAlertSilences]) -> AlertSilencePage:
        """Newest first, including those that are over."""
        query = call.query
        silences = StoredSilence.objects.all()
        if query.open:
            silences = silences.filter(HOLDS)
        page, next_cursor = page_by_number(silences, query)
        return AlertSilencePage(
            items=[AlertSilence.of(silence) for silence in page],
            next_cursor=next_cursor,
        )

    @operation(
        "createAlertSilence",
        Permission.ALERT_HANDLE,
        Shape(keyed=True, body=CreateAlertSilence, answer=AlertSilence, statuses=(201,)),
        summary="Silence alerts",
    )
    def post(self, call: Call[CreateAlertSilence, NoQuery]) -> Reply:
        """Alerts that match go on firing, but nobody is told of them. When the silence ends, people
        are told of those that still fire."""
        body = call.body
        silence = handling.silence(
            self.actor(),
            rule_id=body.rule_id,
            objects_matching=body.objects_matching,
            duration_ms=body.duration_ms,
            reason=body.reason,
        )
        return Reply(AlertSilence.of(silence), 201)


class OneAlertSilence(AlertEndpoint):
    @operation(
        "endAlertSilence",
        Permission.ALERT_HANDLE,
        Shape(keyed=True, answer=AlertSilence),
        summary="End a silence of alerts",
    )
    def delete(self, call: Call[NoBody, NoQuery]) -> AlertSilence:
        """Ends it now; its record is kept. Ending it again changes nothing."""
        return AlertSilence.of(handling.end_silence(self.actor(), self.kwargs["silence_id"]))


def _shown(rule: StoredRule) -> AlertRule:
    return AlertRule.of(rule, int(getattr(rule, "firing", 0)))
