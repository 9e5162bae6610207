"""One StreamChannel: a controller's session from its first arbitration message to the end of its stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import grpc
from finsy.proto import p4r

from p4switch.server import status
from p4switch.server.arbitration import Session
from p4switch.server.device import Device
from p4switch.server.outbox import Outbox
from p4switch.server.status import RequestError

LOG = logging.getLogger(__name__)


def serve_stream(
    device: Device, requests: Iterator[p4r.StreamMessageRequest], context: grpc.ServicerContext, outbox: Outbox
) -> Iterator[p4r.StreamMessageResponse]:
    """Yield what is to be sent, while a thread of its own takes in what the controller sends."""
    session = Session(outbox.put, outbox.offer)
    reader = threading.Thread(target=_read, args=(device, session, requests, outbox), name="stream", daemon=True)

    def gone() -> None:
        outbox.close()
        device.leave(session)
        if outbox.dropped:
            LOG.warning("a controller read too slowly: %d notifications were dropped", outbox.dropped)

    if not context.add_callback(gone):
        return
    reader.start()
    yield from outbox.drain()
    if outbox.error is not None:
        device.leave(session)
        status.abort(context, outbox.error)


def _read(device: Device, session: Session, requests: Iterator[p4r.StreamMessageRequest], outbox: Outbox) -> None:
    try:
        for request in requests:
            _handle(device, session, request, outbox)
    except RequestError as error:
        outbox.close(error)
    except grpc.RpcError:
        LOG.debug("a controller's stream broke")  # also how gRPC reports a cancelled stream
    except Exception:
        LOG.exception("a stream ends because of an error in the server")
        outbox.close(RequestError(status.INTERNAL, "internal error; the server's log tells more"))
    finally:
        # Half-closing counts as leaving, too: a controller that can send no more cannot arbitrate.
        device.leave(session)
        outbox.close()


def _handle(device: Device, session: Session, request: p4r.StreamMessageRequest, outbox: Outbox) -> None:
    kind = request.WhichOneof("update")
    if kind == "arbitration":
        device.arbitrate(session, request.arbitration)
        return
    answer = p4r.StreamMessageResponse()
    error = answer.error
    try:
        if kind == "packet":
            error.packet_out.packet_out.CopyFrom(request.packet)
            device.packet_out(session, request.packet)
        elif kind == "digest_ack":
            error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
            device.digest_ack(session, request.digest_ack)
        else:
            error.other.other.CopyFrom(request.other)
            what = f"'{kind}'" if kind else "without content"
            raise RequestError(status.INVALID_ARGUMENT, f"stream message {what} is not understood")
    except RequestError as refused:
        error.canonical_code = refused.code
        error.message = refused.message
        outbox.offer(answer)
