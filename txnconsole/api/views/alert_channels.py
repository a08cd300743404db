"""Alert channels: where people are told of alerts, and what was sent there (docs/alerts.md)."""

from __future__ import annotations

from txnconsole.access.roles import Permission
from txnconsole.alerts import channels
from txnconsole.alerts.models import Channel as StoredChannel
from txnconsole.alerts.models import Message as StoredMessage
from txnconsole.api.operation import Call, NoBody, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import page_by_number
from txnconsole.api.structs.alert_channels import (
    AlertChannel,
    AlertChannelPage,
    AlertMessage,
    AlertMessagePage,
    ListAlertMessages,
    MadeAlertChannel,
    PutAlertChannel,
)
from txnconsole.api.structs.fields import PageQuery
from txnconsole.api.views.alerts import AlertEndpoint


class AlertChannels(AlertEndpoint):
    @operation(
        "listAlertChannels",
        Permission.ALERT_MANAGE,
        Shape(query=PageQuery, answer=AlertChannelPage),
        summary="List alert channels",
    )
    def get(self, call: Call[None, PageQuery]) -> AlertChannelPage:
        """In the order in which they were created; secrets are never shown."""
        page, next_cursor = page_by_number(StoredChannel.objects.all(), call.query, by="id")
        return AlertChannelPage(
            items=[AlertChannel.of(channel) for channel in page],
            next_cursor=next_cursor,
        )

    @operation(
        "createAlertChannel",
        Permission.ALERT_MANAGE,
        Shape(
            keyed=True,
            unkept=("secret",),
            body=PutAlertChannel,
            answer=MadeAlertChannel,
            statuses=(201,),
        ),
        summary="Create an alert channel",
    )
    def post(self, call: Call[PutAlertChannel, NoQuery]) -> Reply:
        """E-mail or webhook. Messages to a webhook are signed with its `secret`, which is shown
        only in this answer.

        An address is checked when something is sent to it: private addresses are refused unless
        `TXNCONSOLE_ALERTS_PRIVATE_ADDRESSES` is set, and redirects are not followed.
        """
        channel = channels.create_channel(self.actor(), call.body.settings())
        return Reply(MadeAlertChannel.of(channel), 201)


class OneAlertChannel(AlertEndpoint):
    @operation(
        "getAlertChannel",
        Permission.ALERT_MANAGE,
        Shape(answer=AlertChannel),
        summary="Show an alert channel",
    )
    def get(self, call: Call[None, NoQuery]) -> AlertChannel:
        """Where it leads, without its secrets."""
        return AlertChannel.of(channels.find_channel(self.kwargs["channel_id"]))

    @operation(
        "putAlertChannel",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, body=PutAlertChannel, answer=AlertChannel),
        summary="Change an alert channel",
    )
    def put(self, call: Call[PutAlertChannel, NoQuery]) -> AlertChannel:
        """Replaces everything but its kind. A webhook whose `url` is left out keeps its URL.
        Messages of a channel that is off wait until it is on again."""
        settings = call.body.settings()
        return AlertChannel.of(
            channels.change_channel(self.actor(), self.kwargs["channel_id"], settings)
        )

    @operation(
        "deleteAlertChannel",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, statuses=(204,)),
        summary="Delete an alert channel",
    )
    def delete(self, call: Call[NoBody, NoQuery]) -> None:
        """Deletes its messages too; those that are still queued are not sent."""
        channels.delete_channel(self.actor(), self.kwargs["channel_id"])


class SecretOfAlertChannel(AlertEndpoint):
    @operation(
        "renewAlertChannelSecret",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, unkept=("secret",), answer=MadeAlertChannel),
        summary="Renew a webhook's secret",
    )
    def post(self, call: Call[NoBody, NoQuery]) -> MadeAlertChannel:
        """Messages are signed with the new secret from now on. It is shown only in this answer."""
        return MadeAlertChannel.of(channels.renew_secret(self.actor(), self.kwargs["channel_id"]))


class TestOfAlertChannel(AlertEndpoint):
    @operation(
        "testAlertChannel",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, answer=AlertMessage),
        summary="Send a test message",
    )
    def post(self, call: Call[NoBody, NoQuery]) -> AlertMessage:
        """Sends it now, in one attempt of at most ten seconds. `state` is `sent` when it has
        arrived, otherwise `dead`, with the cause."""
        return AlertMessage.of(channels.send_test(self.actor(), self.kwargs["channel_id"]))


class MessagesOfAlertChannel(AlertEndpoint):
    @operation(
        "listAlertMessages",
        Permission.ALERT_MANAGE,
        Shape(query=ListAlertMessages, answer=AlertMessagePage),
        summary="List what was sent to an alert channel",
    )
    def get(self, call: Call[None, ListAlertMessages]) -> AlertMessagePage:
        """Newest first: those that wait, have arrived, or were given up, and why. They are kept for
        30 days, and as long as the alerts that they told of."""
        query = call.query
        channel = channels.find_channel(self.kwargs["channel_id"])
        messages = StoredMessage.objects.filter(channel=channel)
        if query.state is not None:
            messages = messages.filter(state=query.state)
        page, next_cursor = page_by_number(messages, query)
        return AlertMessagePage(
            items=[AlertMessage.of(message) for message in page],
            next_cursor=next_cursor,
        )


class RepetitionOfAlertMessage(AlertEndpoint):
    @operation(
        "resendAlertMessage",
        Permission.ALERT_MANAGE,
        Shape(keyed=True, answer=AlertMessage),
        summary="Send a dead alert message again",
    )
    def post(self, call: Call[NoBody, NoQuery]) -> AlertMessage:
        """It gets as many attempts as a new message. A message that is not dead answers 409
        `AlertConflict`."""
        return AlertMessage.of(
            channels.resend(self.actor(), self.kwargs["channel_id"], self.kwargs["message_id"])
        )
