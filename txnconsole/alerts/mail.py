"""Sending a message by e-mail, through the mail server that Django's settings name."""

from __future__ import annotations

import smtplib

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.message import BadHeaderError

from txnconsole.alerts.errors import DeliveryFailed
from txnconsole.alerts.models import Message

_SMTP = "django.core.mail.backends.smtp.EmailBackend"


def send(message: Message) -> None:
    """Mail a message's text to its channel's recipients, as one mail.

    Its Message-ID is the same in every attempt, so that mail programs show a repetition once.

    Raises:
        DeliveryFailed: the mail server is not configured, cannot be reached, or refuses the mail.
    """
    if settings.EMAIL_BACKEND == _SMTP and not settings.EMAIL_HOST:
        raise DeliveryFailed("No mail server is configured; set EMAIL_HOST.")
    sender = settings.DEFAULT_FROM_EMAIL
    domain = sender.rpartition("@")[2].strip("> ") or "localhost"
    created = int(message.created_at.timestamp())
    mail = EmailMessage(
        subject=message.content["subject"],
        body=message.content["text"],
        from_email=sender,
        to=message.channel.recipients,
        headers={
            "Message-ID": f"<txnconsole-alerts.{message.pk}.{created}@{domain}>",
            "Auto-Submitted": "auto-generated",
        },
    )
    try:
        mail.send()
    except smtplib.SMTPResponseException as error:
        raise DeliveryFailed(f"The mail server answered {error.smtp_code}.") from error
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        raise DeliveryFailed(f"The mail server refused all recipients: {codes}.") from error
    except (smtplib.SMTPException, OSError, BadHeaderError) as error:
        raise DeliveryFailed(f"The mail server: {type(error).__name__}.") from error
