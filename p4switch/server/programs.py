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
    """A pipeline and the state of its tables and other entities."""

    pipeline: Pipeline
    entities: Entities


class _Nobody:
    """Gets the notifications of programs through which no packet runs."""

    def digest(self, digest_id: int, message: p4r.DigestList) -> None:
        pass

    def idle_timeout(self, table_id: int, message: p4r.IdleTimeoutNotification) -> None:
        pass


class Programs:
    """Carries out the actions of SetForwardingPipelineConfig. Callers hold the lock.

    A saved program is loaded into a switch of its own, without ports, whose tables are written and read until COMMIT
    moves them to the running switch.
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
        self._run(pipeline, [])

    def save(self, pipeline: Pipeline) -> None:
        """VERIFY_AND_SAVE: keep a program, and take Writes for it from now on."""
        self._discard_saved()
        self._saved = self._aside(pipeline)

    def commit(self) -> None:
        """COMMIT: run the saved program with what was written for it."""
        if self._saved is None:
            raise RequestError(NOT_FOUND, "no config is saved; VERIFY_AND_SAVE one first")
        self._run(self._saved.pipeline, snapshot(self._saved.entities, self._saved.pipeline.schema))

    def reconcile(self, pipeline: Pipeline) -> None:
        """RECONCILE_AND_COMMIT: run a program with the state of the present one, or change nothing and say why not.

        The same program again touches no packet. For another one the state is first tried out aside; on the running
        switch the tables are then empty for as long as it takes to write them.
        """
        if self.running is None:
            self._run(pipeline, [])
        elif self.running.pipeline.build.library == pipeline.build.library:
            self._discard_saved()
            self.running = dataclasses.replace(self.running, pipeline=pipeline)
        else:
            updates = snapshot(self.running.entities, pipeline.schema)
            trial = self._aside(pipeline)
            try:
                _replay(trial.entities, updates)
            except BatchError as error:
                raise RequestError(
                    INVALID_ARGUMENT, f"the forwarding state cannot be preserved under the new program: {error.message}"
                ) from error
            finally:
                trial.entities.close()
            self._run(pipeline, updates)

    def close(self) -> None:
        """Stop what runs in the background."""
        self._discard_saved()
        if self.running is not None:
            self.running.entities.close()
            self.running = None

    def _run(self, pipeline: Pipeline, updates: list[p4r.Update]) -> None:
        with translated("p4_device_config"):
            self._dataplane.load(pipeline.build.library)  # if it fails, the old program goes on
        if self.running is not None:
            self.running.entities.close()
        self.running = None
        entities = Entities(pipeline.schema, self._dataplane, self._lock, self._notifier)
        self.running = Loaded(pipeline, entities)
        self._discard_saved()
        _replay(entities, updates)
        LOG.info("pipeline realised: %s", pipeline.build.library)

    def _aside(self, pipeline: Pipeline) -> Loaded:
        options = dataclasses.replace(self._dataplane.options, pcap_dir=None, trace=False)
        with translated("p4_device_config"):
            dataplane = DataPlane(options)
            dataplane.load(pipeline.build.library)
        return Loaded(pipeline, Entities(pipeline.schema, dataplane, self._lock, _Nobody()))

    def _discard_saved(self) -> None:
        if self._saved is not None:
            self._saved.entities.close()
            self._saved = None


def _replay(entities: Entities, updates: list[p4r.Update]) -> None:
    if updates:
        write(entities, p4r.WriteRequest(updates=updates), RoleConfig())
