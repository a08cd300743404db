"""Alerts: rules over what the engine measures, and telling people when one of them is broken.

A rule (``kinds`` names what can be measured, ``measuring`` reads it) has one alert for each object
that is above its threshold: which partition, which transaction. A worker looks every few seconds
(``evaluating``), what follows is decided without IO (``deciding``), and what people should hear
becomes a notice for each channel. Notices are bundled into messages (``bundling``), and messages
are sent until they arrive or are given up (``delivering``, by ``mail`` or ``webhook``).

States of an alert: pending -> firing -> resolved; a pending one that clears is deleted. Of a
message: queued -> sent | dead; dead -> queued, when somebody has it sent again.

Invariants
    A rule and an object have at most one alert that is not resolved (a unique index).
    A change of state and its notices are one SQL transaction, which also moves the rule's
    ``measured_at`` on by compare-and-set: two workers never fire one alert twice, and a
    measurement that is older than what has been decided decides nothing.
    A notice belongs to at most one message. A message is sent by who has its lease; it arrives at
    least once, and its id tells a repetition.
    What could not be measured changes nothing: an alert is neither begun nor resolved by it.
    Secrets and addresses of webhooks are in no answer, page or log.

Lock order: the evaluation's row, rule, alerts ascending by id, channel, notices, messages, the
audit log's lock. No lock is held while the engine is asked or a message is on its way.

What a crash leaves behind: nothing half done. A worker that dies between measuring and deciding is
followed by the next evaluation; one that dies while sending, by another attempt when its lease is
over. When no worker lives at all, nothing is evaluated: whoever reads alerts (``reading``) compares
the time of the last evaluation with the database's clock and adds that alert itself; the first
worker that comes back writes it down.
"""

from __future__ import annotations
