"""The program that runs and the one that is saved for later, each with its forwarding state."""

from __future__ import annotations

import dataclasses
import logging
import threading
from dataclasses import dataclass

from finsy.proto import p4r

from p4switch.dataplane import DataPlane
from p4switch.server.dataplane_errors import translated
from p4switch.server.entities import Entities, Notifier
from p4switch.server.pipeline import Pipeline
from p4switch.server.roles import RoleConfig
from p4switch.server.snapshot import snapshot
from p4switch.server.status import INVALID_ARGUMENT, NOT_FOUND, BatchError, RequestError
from p4switch.server.write import write

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loaded:
    """A pipeline, the state of its tables and other entities, and the switch that it is loaded into."""

    pipeline: Pipeline
    entities: Entities
    dataplane: DataPlane


class Programs:
    """Carries out the actions of SetForwardingPipelineConfig. Callers hold the lock.

    A saved program is loaded into a switch of its own, without ports, whose tables are written and read until COMMIT.
    Then the running switch adopts the program with its tables: no packet meets empty ones.
    """

    def __init__(self, dataplane: DataPlane, lock: threading.RLock, notifier: Notifier) -> None:
        self._dataplane = dataplane
        self._lock = lock
        self._notifier = notifier
        self._saved: Loaded | None = None
        self.running: Loaded | None = None

    @property
    def addressed(self) -> Loaded | None:
        """The program that Writes and Reads are about: the saved one if there is one, as 1.4 wants it."""
        return self._saved or self.running

    def realize(self, pipeline: Pipeline) -> None:
        """VERIFY_AND_COMMIT: run a program with fresh tables."""
        with translated("p4_device_config"):
            self._dataplane.load(pipeline.build.library)  # if it fails, the old program goes on
        entities = Entities(pipeline.schema, self._dataplane, self._lock, self._notifier, self._dataplane.ports)
        self._replace(Loaded(pipeline, entities, self._dataplane))

    def save(self, pipeline: Pipeline) -> None:
        """VERIFY_AND_SAVE: keep a program, and take Writes for it from now on."""
        self._discard_saved()
        self._saved = self._aside(pipeline)

    def commit(self) -> None:
        """COMMIT: run the saved program with what was written for it."""
        if self._saved is None:
            raise RequestError(NOT_FOUND, "no config is saved; VERIFY_AND_SAVE one first")
        saved, self._saved = self._saved, None
        self._adopt(saved)

    def reconcile(self, pipeline: Pipeline) -> None:
        """RECONCILE_AND_COMMIT: run a program with the state of the present one, or change nothing and say why not.

        The same config again touches no packet. For another program, or another P4Info, which may have less of it, the
        state is made aside, and then adopted with what packets changed meanwhile.
        """
        if self.running is None:
            self.realize(pipeline)
        elif self.running.pipeline.is_same_as(pipeline):
            self._discard_saved()
            self.running = dataclasses.replace(self.running, pipeline=pipeline)
        else:
            updates = snapshot(self.running.entities, pipeline.schema)
            successor = self._aside(pipeline)
            try:
                if updates:
                    with successor.entities.taking_over():
                        write(successor.entities, p4r.WriteRequest(updates=updates), RoleConfig())
            except BatchError as error:
                successor.entities.close()
                raise RequestError(
                    INVALID_ARGUMENT, f"the forwarding state cannot be preserved under the new program: {error.message}"
                ) from error
            self._adopt(successor, carry=True)

    def close(self) -> None:
        """Stop what runs in the background."""
        self._discard_saved()
        if self.running is not None:
            self.running.entities.close()
            self.running = None

    def _adopt(self, successor: Loaded, *, carry: bool = False) -> None:
        with translated("p4_device_config"):
            self._dataplane.adopt(successor.dataplane, carry=carry)
        successor.entities.move(self._dataplane, self._notifier)
        self._replace(dataclasses.replace(successor, dataplane=self._dataplane))

    def _replace(self, successor: Loaded) -> None:
        old, self.running = self.running, successor
        if old is not None:
            old.entities.close()
        self._discard_saved()
        LOG.info("pipeline realised: %s", successor.pipeline.build.library)

    def _aside(self, pipeline: Pipeline) -> Loaded:
        options = dataclasses.replace(self._dataplane.options, pcap_dir=None, trace=False)
        with translated("p4_device_config"):
            dataplane = DataPlane(options)
            dataplane.load(pipeline.build.library)
        return Loaded(
            pipeline, Entities(pipeline.schema, dataplane, self._lock, None, self._dataplane.ports), dataplane
        )

    def _discard_saved(self) -> None:
        if self._saved is not None:
            self._saved.entities.close()
            self._saved = None
