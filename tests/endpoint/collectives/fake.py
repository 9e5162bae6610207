"""A fabric without wires: writes are delivered in any order, by a thread of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Self, TypeVar

from codec.constants import LsuOpcode, TmaOpcode
from endpoint.collectives.group import Group
from endpoint.collectives.mailbox import Mailboxes, scratch_bytes
from endpoint.errors import LsuTimeout, NotificationTimeout, TmaTimeout
from endpoint.memory import SCRATCH_KEY, Memory
from endpoint.tma.notifications import Notification, Notifications
from endpoint.transfer import Transfer

T = TypeVar("T")


class FakeFabric:
    """GPUs with ids 1 to `gpus`. `dead` ones answer nothing."""

    def __init__(self, gpus: int, seed: int = 0, dead: Sequence[int] = ()) -> None:
        self.chooser = Random(seed)
        self.arrived = threading.Condition()
        self.under_way: list[Callable[[], None]] = []
        self.dead = set(dead)
        self.ids = range(1, gpus + 1)
        self.gpus = {gpu: FakeGpu(self, gpu) for gpu in self.ids}
        self.ended = False
        self.thread = threading.Thread(target=self._deliver, daemon=True)
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.arrived:
            self.ended = True
            self.arrived.notify_all()
        self.thread.join()

    def _deliver(self) -> None:
        """Deliver the writes under way, any of them first, now at once and now when some have gathered."""
        while True:
            with self.arrived:
                while not self.under_way and not self.ended:
                    self.arrived.wait()
                if self.ended:
                    return
                if self.chooser.random() < 0.7:
                    self.under_way.pop(self.chooser.randrange(len(self.under_way)))()
                    self.arrived.notify_all()
                    continue
            time.sleep(self.chooser.random() / 2000)

    def run(self, program: Callable[[FakeGpu], T], ids: Sequence[int] | None = None) -> list[T | BaseException]:
        """Run a program at every GPU, a thread each; return what they return, or raise."""
        results: dict[int, T | BaseException] = {}

        def work(gpu: FakeGpu) -> None:
            try:
                results[gpu.id] = program(gpu)
            except BaseException as error:
                results[gpu.id] = error

        threads = [threading.Thread(target=work, args=(self.gpus[gpu],), daemon=True) for gpu in ids or self.ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a collective hangs"
        return [results[gpu] for gpu in sorted(results)]


class FakeGpu:
    """What mailboxes need of a GPU."""

    def __init__(self, fabric: FakeFabric, gpu_id: int) -> None:
        self.fabric = fabric
        self.id = gpu_id
        self.memory = Memory()
        self.notifications = Notifications(1 << 16)
        region = self.memory.register(scratch_bytes(len(fabric.ids)), SCRATCH_KEY)
        self.mailboxes = Mailboxes(self, region, gpu_id, fabric.ids)

    def group(self, ids: Sequence[int] | None = None) -> Group:
        return Group(self.mailboxes, self.id, ids or self.fabric.ids)

    def write_async(
        self, dst: int, address: int, data: Any, key: int, *, notify: bool, timeout_s: float
    ) -> Transfer[None]:
        transfer: Transfer[None] = Transfer(1, lambda _values: None)

        def place() -> None:
            target = self.fabric.gpus[dst]
            if dst in self.fabric.dead:
                transfer.part_failed(TmaTimeout(TmaOpcode.WRITE, dst, address, len(data), key))
                return
            region = target.memory.get(key)
            assert region is not None
            region.array[address : address + len(data)] = bytearray(data)
            if notify:
                target.notifications.add(Notification(self.id, key, address, len(data)))
            transfer.part_done(0, None)

        with self.fabric.arrived:
            self.fabric.under_way.append(place)
            self.fabric.arrived.notify_all()
        return transfer

    def wait_notification(self, src: int | None, key: int | None, timeout_s: float) -> Notification:
        deadline = time.monotonic() + timeout_s
        with self.fabric.arrived:
            while True:
                found = self.notifications.take(src, key)
                if found is not None:
                    return found
                if not self.fabric.arrived.wait(max(0.0, deadline - time.monotonic())):
                    raise NotificationTimeout("none")

    def load_async(self, dst: int, address: int, length: int, key: int) -> Transfer[bytes]:
        transfer: Transfer[bytes] = Transfer(1, lambda values: values[0])
        region = self.fabric.gpus[dst].memory.get(key)
        if dst in self.fabric.dead or region is None:
            transfer.part_failed(LsuTimeout(LsuOpcode.LOAD, dst, address, length, key))
        else:
            transfer.part_done(0, region.array[address : address + length].tobytes())
        return transfer
