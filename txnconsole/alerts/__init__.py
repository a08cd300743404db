"""Alerts: rules over what the engine measures, and telling people when one of them is broken.

A rule measures one kind of thing (``kinds`` lists them, ``measuring`` reads them) and has one alert
for each object, such as a partition or a transaction, whose value is above the rule's threshold. A
worker evaluates all rules every few seconds (``evaluating``). What follows from a measurement is
decided without IO (``deciding``). What people should hear becomes one notice for each channel
(``notices``); the notices of a channel are bundled into messages (``bundling``); messages are sent
until they arrive or are given up (``delivering``, by ``mail`` or ``webhook``).

States of an alert: pending -> firing -> resolved; a pending alert that clears is deleted. States of
a message: queued -> sent | dead; dead -> queued, when somebody has it sent again.

Invariants
    A rule and an object have at most one alert that is not resolved (a unique index).
    A change of state and its notices are one SQL transaction, which also moves the rule's
    ``measured_at`` on by compare-and-set: two workers never fire one alert twice, and a
    measurement that is older than what has been decided decides nothing.
    A notice belongs to at most one message. Only the worker that holds a message's lease sends it.
    It arrives at least once; its id lets the receiver recognize a repetition.
    What could not be measured changes nothing: it neither begins an alert nor resolves one.
    Secrets and addresses of webhooks are in no answer, page or log. A secret is answered once, to
    whoever made it.

Lock order: the turn of who makes a rule, channel or silence, the evaluation's row, rule, alerts
ascending by id, channel, notices, messages, the audit log's lock. No lock is held while the engine
is asked or a message is on its way.

What a crash leaves behind: nothing half done. When a worker dies between measuring and deciding,
the next evaluation does its work; when it dies while sending, the message is tried again as soon as
the lease has run out. When no worker is alive, nothing is evaluated: whoever reads alerts
(``reading``) compares the time of the last evaluation with the database's clock and adds the alert
about silent workers itself. The first worker that comes back stores it (``silent_workers``).
"""

from __future__ import annotations
