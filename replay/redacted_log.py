"""A log under pseudonyms: its records, from the first, and State that is folded from them.

Each recorded decision is made again under pseudonyms. Where it is the same but for its texts (messages, digests of names), the texts
of the new one are taken. Where it is another, the recorded one stays, and counts as different: the redacted log diverges there when it
is replayed.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import structs

from events.chain import Draft, seal
from events.codec import decode, encode
from events.cycle import CycleOpened
from events.daemon import PolicyChanged, PolicyWarned
from events.decision import Decision
from events.json_value import Json
from events.record import GENESIS, Head, Record
from events.union import Derived, Event
from features.table import FEATURES
from projections.base.base_table import BaseReader
from projections.left_out import LeftOut
from projections.policy.policy import parse_policy
from projections.state import State
from replay.redaction import TEXTS, Redaction
from scheduling.decide import Decider

OBJECTS_HELD: Final = 8192

_DECODER: Final = msgspec.json.Decoder()


class RedactedLog:
    """Takes the records of a log in order, from its beginning, and returns them under pseudonyms."""

    def __init__(self, redaction: Redaction, left_out: LeftOut | None = None) -> None:
        self.state = State(FEATURES, left_out)
        self.head = GENESIS
        self.different = 0
        """Recorded decisions that are not made again under pseudonyms."""
        self.first_different = 0
        self._redaction = redaction
        self._decider = Decider(self.state)
        self._decided: Iterator[Derived] | None = None
        self._held: OrderedDict[tuple[str, str], tuple[str, bytes]] = OrderedDict()

    def begin(self, reader: BaseReader, head: Head) -> None:
        """Begin behind a position, with what stands there under pseudonyms (`standing`)."""
        left_out, self.state = self.state.left_out, reader.finish()
        self.state.left_out, self.head = left_out, head
        self._decider = Decider(self.state)

    def before(self, record: Record, content: bytes | None) -> tuple[Record, bytes | None]:
        """Return a record of a base, and its object."""
        digest = record.object
        if digest is not None and content is not None:
            digest, content = self._object(record.subject.partition("/")[0], digest, content)
        body = self._redaction.body(record.kind, record.body)
        subject = self._redaction.subject(record.subject)
        return structs.replace(record, body=body, subject=subject, object=digest), content

    def take(self, record: Record, content: bytes | None) -> tuple[Record, bytes | None]:
        """Return a record and its object."""
        digest = record.object
        if digest is not None and content is not None:
            digest, content = self._object(record.subject.partition("/")[0], digest, content)
        body = self._redaction.body(record.kind, record.body)
        event = decode(record.kind, body, position=record.position)
        if isinstance(event, Decision | PolicyWarned):
            event, body = self._decision(record, event, body)
        draft = Draft(
            record.position,
            record.batch,
            record.epoch,
            record.recorded_at_ns,
            record.cycle,
            record.cause,
            record.kind,
            self._redaction.subject(record.subject),
            body,
            digest,
        )
        done = seal(self.head.digest, draft)
        self.head = Head(done.position, done.digest, done.epoch)
        self.state.apply(done, event, content)
        self.state.settle()
        if isinstance(event, CycleOpened):
            self._decided = iter(self._decider.decide())
        elif isinstance(event, PolicyChanged):
            warned = parse_policy(bytes(event.policy), self.state.features.policy_table)[1]
            self._decided = iter(
                [PolicyWarned(path=one.path, message=one.message) for one in warned]
            )
        return done, content

    def _decision(self, record: Record, event: Event, body: bytes) -> tuple[Event, bytes]:
        """Return the decision made under pseudonyms if it is that of the record but for its texts."""
        again = None if self._decided is None else next(self._decided, None)
        if again is not None and again.kind == record.kind:
            encoded = encode(again)
            if _plain(_DECODER.decode(encoded)) == _plain(_DECODER.decode(body)):
                return again, encoded
        self._decided = None
        self.different += 1
        self.first_different = self.first_different or record.position
        return event, body

    def _object(self, kind: str, digest: str, content: bytes) -> tuple[str, bytes]:
        found = self._held.get((kind, digest))
        if found is None:
            done = self._redaction.content(kind, content)
            found = self._held[kind, digest] = (sha256(done).hexdigest(), done)
            if len(self._held) > OBJECTS_HELD:
                self._held.popitem(last=False)
        self._held.move_to_end((kind, digest))
        return found


def _plain(value: Json) -> Json:
    """Return an event without its texts."""
    match value:
        case dict():
            return {key: _plain(one) for key, one in value.items() if key not in TEXTS}
        case list():
            if len(value) > 5 and isinstance(value[3], int) and isinstance(value[5], str):
                value = [*value[:5], "", *value[6:]]  # A pod of a restart, with its `detail`.
            return [_plain(one) for one in value]
        case _:
            return value
